"""A value is masked in every form in which a text gives it to a name that says secret."""

from __future__ import annotations

import json

import pytest

from mcp_compaction.core.text.secrets import redact
from tests.lexicon.made_up import made_up

_WHO = "Zq7{Xk9Vb2Mw4*1}Tn6Rp1"  # sixteen signs, by chance
_LONG = "Zq7{Xk9Vb2Mw4*3}Tn6Rp1"


def _there(text: str, value: str) -> str:
    return made_up(text.replace("VALUE", value))


@pytest.mark.parametrize(
    "text",
    [
        "password   =    VALUE",
        "password\t=\tVALUE",
        "secret_key_base: VALUE",
        "HMAC_KEY=VALUE",
        "DATABASE_KEY=VALUE",
        "FERNET_KEY=VALUE=",
        "SMTP_PW=VALUE",
        '{"pass": "VALUE"}',
        '{"password":\n    "VALUE"}',
        "ENV DEPLOY_SECRET VALUE",
        "set -x GITEA_TOKEN VALUE",
        'setx GITEA_TOKEN "VALUE"',
        "DEPLOY_TOKEN ?= VALUE",
        "TOKEN += VALUE",
        "$env:SQL_PASSWORD = 'VALUE'",
        "ENV['MAILER_SECRET'] ||= 'VALUE'",
        "define('DB_PASSWORD', 'VALUE');",
        'Config.set(:api_secret, "VALUE")',
        '<add key="SmtpPassword" value="VALUE" />',
        "<password>VALUE</password>",
        "- name: REDIS_PASSWORD\n  value: VALUE",
        '{"name": "DB_PASSWORD", "value": "VALUE"}',
        'variable "admin_password" {\n  default = "VALUE"\n}',
        'var apiKey string = "VALUE"',
        'password: str = "VALUE"',
        "password <- 'VALUE'",
        "password: |\n  VALUE",
        '(setq my-api-token "VALUE")',
        "ALTER ROLE ann WITH PASSWORD 'VALUE'",
        "ALTER LOGIN ann WITH PASSWORD = N'VALUE'",
        "tool --authkey VALUE",
        "tool --client-secret VALUE",
        "requirepass VALUE",
        "**Password**: VALUE",
        "the password is VALUE, as ever",
        "password for the new account: VALUE",
        "Passwort: VALUE",
        "Das Kennwort lautet VALUE",
        "DATENBANKPASSWORT=VALUE",
        "contraseña: VALUE",
        "La contraseña del servidor es VALUE",
        "clave = VALUE",
        "mot de passe : VALUE",
        "MOT_DE_PASSE=VALUE",
        "senha: VALUE",
        "wachtwoord=VALUE",
        "hasło: VALUE",
        "HASLO_BAZY=VALUE",
        "пароль: VALUE",
        "Пароль от базы — VALUE",
        "数据库密码是 VALUE",
        "密码：VALUE",
        "パスワードは「VALUE」です",
        "비밀번호: VALUE",
        "ŞIFRE=VALUE",
        "İ password=VALUE",
    ],
)
def test_what_is_given_to_a_secret_name_is_masked(text: str):
    value = made_up(_WHO)
    whole = _there(text, value)
    redacted = redact(whole)
    assert value not in redacted.text
    assert sum(redacted.counts.values()) == 1
    assert redact(redacted.text).text == redacted.text
    raw = json.dumps({"n": 12345678, "text": whole}, ensure_ascii=False)
    masked = json.loads(redact(raw).text)
    assert value not in masked["text"]
    assert masked["n"] == 12345678


@pytest.mark.parametrize(
    "text",
    [
        "tskey-auth-VALUE",
        "echo zzq_VALUEVALUE",
        "https://api.telegram.org/bot1234567890:AAVALUE7/sendMessage",
    ],
)
def test_a_token_of_an_unknown_maker_is_known_by_its_form(text: str):
    value = made_up("Zq7{Xk9Vb2Mw4*2}Tn6Rp1Zq7Xk9a")[:32]
    assert value not in redact(text.replace("VALUE", value)).text


@pytest.mark.parametrize(
    "text",
    [
        "cache_key = 'VALUE'",
        "publicKey: VALUE",
        "key: VALUE",
        "idempotency_key=VALUE",
        "token_count = VALUE",
        "secretName: VALUE",
        "password_hash: VALUE",
        "TOKEN_URL=VALUE",
        "tokenizer = 'VALUE'",
        "palabra clave: VALUE",
        "next_page_token: VALUE",
        "if token == 'VALUE': pass",
        "[masked:password]=VALUE",
        "gpg: key VALUE: imported",
        "toolu_VALUE",
        "msg_VALUE",
        "cache-key-VALUE",
    ],
)
def test_what_is_given_to_another_name_stays(text: str):
    whole = _there(text, made_up(_LONG))
    assert redact(whole).text == whole


@pytest.mark.parametrize(
    "text",
    [
        "ENV PASSWORD_MIN_LENGTH 12",
        "set -x PATH $HOME/bin $PATH",
        "pass: 118, fail: 2",
        "password is required",
        "the password is base64-encoded",
        "the token is PBKDF2-derived",
        "Das Passwort ist abgelaufen",
        "La clave es entender el problema",
        "Passwort: siehe Tresor",
        "password for user ann: 3 attempts",
        "| password | string | yes |",
        '"password": "Password must not be empty"',
        "encryption_key_id = 550e8400-e29b-41d4-a716-446655440000",
        "signing_key: SHA256:abc",
        "HMAC_KEY=${HMAC_KEY}",
        "DATABASE_KEY=/run/secrets/db1234567890abcdef",
        "FERNET_KEY = Fernet.generate_key()",
        "password: op://Private/db1/password",
        "signature_key = HttpBearerAuth2Token3Thing",
        "password <- readline()",
        '["password", "b1234567"]',
        "def sign(self, private_key: SSHCertPrivateKeyTypes): ...",
        "key: Ed25519PrivateKey | Ed448PrivateKey",
        '<a href="#x25519-key-pairs" id="ed25519x25519-key-pairs">',
        '<a name="xsltKeyDefPtr" id="xsltKeyDefPtr">',
        "a library identified by 'name'",
        "ghp_{x*36}",
    ],
)
def test_what_is_no_value_of_a_secret_name_stays(text: str):
    whole = made_up(text)
    assert redact(whole).text == whole


_TYPED = "Zq7!{xk*1}Vb2mw4"  # as somebody makes one up


@pytest.mark.parametrize(
    "text",
    [
        "keytool -list -storepass VALUE",
        "wpa_passphrase Office5G VALUE",
        "htpasswd -nbB ann VALUE",
        "net use n: nas VALUE /user:ann",
        "7z a -pVALUE out.7z data",
        "printf '%s' 'VALUE' | gh secret set DEPLOY",
        "kubectl create secret generic db --from-literal=db=VALUE",
        'dotnet user-secrets set "Db:Login" "VALUE"',
        "Das Passwort für den neuen Server lautet VALUE, bitte",
        'la password del router è "VALUE"',
        "le mot de passe de la base est VALUE",
        "a senha do servidor é VALUE",
        "hasło do serwera to VALUE",
        "пароль VALUE",
        "密码为：VALUE",
    ],
)
def test_a_password_that_somebody_typed_is_masked(text: str):
    value = made_up(_TYPED)
    whole = text.replace("VALUE", value)
    redacted = redact(whole)
    assert value not in redacted.text
    assert redact(redacted.text).text == redacted.text
    raw = json.dumps({"text": whole}, ensure_ascii=False)
    assert value not in json.loads(redact(raw).text)["text"]


@pytest.mark.parametrize(
    "text",
    [
        'the password is "{vespa50limone*1}" there',
        "Das Kennwort ist {Tasse_77*1}x",
        "my wifi is Office5G, passphrase {correct-*1}giraffe-staple-41. write it down",
    ],
)
def test_a_password_of_words_and_a_number_is_masked_where_a_sentence_says_it(text: str):
    assert redact(made_up(text)).counts == {"password": 1}


@pytest.mark.parametrize(
    "text",
    [
        'expect(page.getByLabel("Password"))',
        "curl -u $USER:$PASS https://example.org",
        "mysql -u root -p",
        "docker run -p 8080:80 postgres:16",
        "unzip -p build-17a.zip notes2.txt",
        "gh secret set DEPLOY_KEY2 --repo acme/api2",
        "kubectl create secret generic app --from-literal=username=svc_app1",
        "heroku config:set NODE_VERSION=18.17.0",
        "la contraseña es obligatoria",
        "le mot de passe est trop court",
        "the password was PBKDF2-HMAC-SHA256 derived",
        "the password is argon2id hashed",
        "we pass to modnames2paths: it reads",
        "arn:aws:secretsmanager:eu-west-1:482910337715:secret:prod/db/password-Xa81Qz",
        "postgres://user:password@localhost:5432/app",
        "redis://:****@cache:6379/0",
        "mongodb://root:example@mongo:27017",
        "git config --global user.signingkey {4F0C*4}",
        "https://organisation@dev.example.org/p1/_git/repo",
    ],
)
def test_what_only_stands_near_a_password_stays(text: str):
    whole = made_up(text)
    assert redact(whole).text == whole
    assert redact(json.dumps([whole])).counts == {}
