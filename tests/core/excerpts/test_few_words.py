"""Words of users that only steer give way, in languages that write no spaces too."""

from __future__ import annotations

import pytest

from mcp_compaction.core.excerpts.choose import Sources, choose_excerpts
from mcp_compaction.core.excerpts.render import excerpts_block
from mcp_compaction.core.tokens import estimate
from tests.core.saying import ran, user
from tests.sessions import messages_of

WORK = ran("w", "make", "built in 3 seconds")


@pytest.mark.parametrize(
    ("rule", "steering"),
    [
        ("请不要修改登录页面的样式", ["继续", "好的", "可以了", "没问题", "下一个", "再来一次"]),
        (
            "ログイン画面の見た目は変えないで",
            ["続けて", "はい", "次へ", "いいよ", "了解", "もう一度"],
        ),
    ],
)
def test_what_a_user_says_without_spaces_comes_before_words_that_only_steer(
    rule: str, steering: list[str]
) -> None:
    session = [user(rule), *(step for text in steering for step in (*WORK, user(text)))]
    shown = excerpts_block(
        choose_excerpts(Sources(messages_of(session)), "", 60, estimate).excerpts
    )
    assert rule in shown
    assert not all(text in shown for text in steering)
