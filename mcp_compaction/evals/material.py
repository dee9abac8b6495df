"""The material of generated sessions: four kinds of work, their things, tools and noise."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

_COLORS = (
    "amber", "basil", "cedar", "cobalt", "coral", "crimson", "dune", "ember", "fjord", "garnet",
    "hazel", "indigo", "ivory", "jade", "juniper", "kelp", "lilac", "lunar", "maple", "marble",
    "nectar", "ochre", "olive", "onyx", "opal", "pebble", "pewter", "quartz", "russet", "saffron",
    "sage", "sienna", "slate", "sorrel", "tawny", "teal", "thistle", "umber", "velvet", "willow",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    """One kind of work."""

    name: str
    things: tuple[str, ...]  # each becomes unique by a word before it
    acts: tuple[str, ...]
    jobs: tuple[str, ...]
    choices: tuple[str, ...]
    requests: tuple[str, ...]
    looks: tuple[str, ...]  # what an agent says before it reads something
    folders: tuple[str, ...]
    endings: tuple[str, ...]  # of file names
    commands: tuple[tuple[str, str], ...]  # what for, and the line
    measures: tuple[str, ...]
    errors: tuple[str, ...]
    labels: tuple[str, ...]  # what an id is of
    sites: tuple[str, ...]
    noise: tuple[str, ...]
    reader: tuple[str, str]  # the tool that reads, and its argument
    has_plan: bool = True


CODING = Field(
    name="coding",
    things=("parser", "retry queue", "session cache", "import job", "login form", "price table",
            "search index", "mail worker", "upload handler", "audit log"),
    acts=("rename", "rewrite", "delete", "reformat", "upgrade", "move"),
    jobs=("write the migration", "add a regression test", "measure the memory", "update the docs",
          "remove the feature flag", "handle empty input", "split the module"),
    choices=("a token bucket", "plain SQL", "an LRU map", "two workers", "polling every 30 s",
             "a single writer", "streaming JSON", "optimistic locks", "a write-ahead file"),
    requests=("The {thing} fails for some customers. Find out why and fix it.",
              "Please make the {thing} faster, it holds up the nightly run.",
              "Add paging to the {thing} and cover it with tests.",
              "There is a report that the {thing} loses entries. Can you look into it?",
              "Clean up the {thing}: the code is hard to follow since the last merge."),
    looks=("Let me look at the {thing} first.", "The {thing} lives here, I think.",
           "I'll read how the {thing} is put together.", "Now the other side of the {thing}."),
    folders=("src/core", "src/api/v2", "lib/store", "services/billing", "tests/unit",
             "internal/net", "packages/web/src", "cmd/worker"),
    endings=(".py", ".ts", ".go", ".rs", ".sql", ".toml", ".test.ts", ".yaml"),
    commands=(("run the tests of the {thing}", "pytest -q tests/{word} -k {noun} --maxfail={d}"),
              ("see who changed the {thing}", "git log --oneline -n {d}0 -- {path}"),
              ("build the {thing}", "make -C build/{word} {noun} JOBS={d}"),
              ("check the types of the {thing}", "npx tsc --noEmit -p packages/{word}"),
              ("find the callers of the {thing}", "rg -n 'open_{noun}' services/{word}"),
              ("time the {thing}", "hyperfine --warmup {d} './bench {word}'")),
    measures=("p99_ms", "rows_lost", "cache_hits", "heap_mb", "open_handles", "retries"),
    errors=("KeyError: '{word}_id' in load_{noun}, line {n}",
            "TypeError: open_{noun}() takes 2 positional arguments but {d} were given",
            "AssertionError: expected {n} rows from {word}, got 0",
            "error: cannot borrow `{word}` as mutable, it is also borrowed as immutable (line {n})",
            "FATAL: connection to {word}-db:{n} refused"),
    labels=("ticket", "commit", "trace", "build"),
    sites=("https://docs.{word}.dev/guide/{noun}", "https://github.com/{word}/{noun}/issues/{n}"),
    noise=("    if {word}.get('{made}') is None: return default_{noun}({n})",
           "    self._{made} = {noun}_factory(limit={n}, strict=False)",
           "def {made}_{word}(value: int) -> int:  # moved from {made} in r{n}",
           "    for entry in {made}_entries: total += entry.{noun} * {n}",
           "{n}:     logger.debug('%s of %s', {word}, {noun})",
           "    raise_if({word} < {n}, 'the {made} {noun} is not ready')",
           "    return tuple(sorted({word}.items(), key=by_{noun}))[:{n}]"),
    reader=("read_file", "path"),
)  # fmt: skip

OPERATIONS = Field(
    name="operations",
    things=("ingress", "billing cluster", "message broker", "backup job", "metrics store",
            "edge proxy", "object store", "job scheduler", "mail relay", "read replica"),
    acts=("restart", "drain", "scale down", "reboot", "fail over", "patch"),
    jobs=("rotate the certificate", "write the postmortem", "raise the alert threshold",
          "order more disks", "test the restore", "tidy up the dashboards", "close the port"),
    choices=("a blue-green switch", "three replicas", "the smaller machine type",
             "weekly snapshots", "a canary of 5 percent", "manual failover", "gp3 volumes",
             "the second provider"),
    requests=("The {thing} is paging again since midnight. Find the cause.",
              "Plan the upgrade of the {thing} and tell me what could go wrong.",
              "Latency of the {thing} doubled on Monday; have a look.",
              "The disk of the {thing} will be full in two days. What do we do?",
              "Go through the logs of the {thing} and list what is unusual."),
    looks=("I'll look at the configuration of the {thing}.", "First the logs of the {thing}.",
           "Let me see how the {thing} is set up.", "Now the limits of the {thing}."),
    folders=("/etc/haproxy", "/var/log/app", "ansible/roles/db", "k8s/prod/base", "/opt/relay/conf",
             "terraform/modules/net", "/srv/backup", "helm/charts/api"),
    endings=(".yaml", ".conf", ".log", ".tf", ".service", ".json", ".sh", ".cfg"),
    commands=(("see the pods of the {thing}", "kubectl -n {word} get pods -l app={noun}"),
              ("read the journal of the {thing}", "journalctl -u {word}-{noun} --since -{d}0min"),
              ("check the disk of the {thing}", "ssh {word}{d} df -h /srv/{noun}"),
              ("see the plan for the {thing}", "terraform plan -target=module.{word}.{noun}"),
              ("ask the {thing} for its lag", "psql -h {word}-db -c 'select * from {noun}_lag'"),
              ("test the endpoint of the {thing}", "curl -fsS http://{word}.internal:{n}/healthz")),
    measures=("error_rate", "disk_used_pct", "lag_seconds", "connections", "cpu_steal", "iops"),
    errors=("FATAL: remaining connection slots are reserved ({word}, pid {n})",
            "error: timed out waiting for the condition on pods/{word}-{noun}-{n}",
            "fatal: no space left on device /srv/{word}",
            "OOMKilledError: {noun} in {word} used {n} MiB",
            "panic: {word}: short read of {n} bytes in {noun}"),
    labels=("incident", "change", "request", "host"),
    sites=("https://status.{word}.io/history/{n}", "https://runbooks.example.com/{word}/{noun}"),
    noise=("May 0{d} 0{d}:1{d}:22 {word}-{d} {noun}[{n}]: served /{made}/{noun} in {n} ms",
           "May 0{d} 0{d}:3{d}:07 {word}-{d} {noun}[{n}]: connection reset by peer, will go on",
           "{word}-{noun}-{d}   1/1   Running   {d}   {n}m",
           "level=info component={made} msg=\"{noun} reconciled\" generation={n}",
           "{word}.{noun}.{made}.count {n} 17{n}",
           "    - name: {word}\n      value: \"{noun}-{n}\""),
    reader=("read_file", "path"),
)  # fmt: skip

RESEARCH = Field(
    name="research",
    things=("survey", "meta-analysis", "interview series", "cohort", "literature list",
            "third chapter", "questionnaire", "data appendix", "field trial", "control group"),
    acts=("quote", "merge", "publish", "re-code", "translate", "shorten"),
    jobs=("check the references", "write to the authors", "draw the figure", "redo the weighting",
          "add the limitations", "translate the abstract", "ask for the raw data"),
    choices=("a random-effects model", "the 2019 wave", "open coding", "a Bonferroni correction",
             "the shorter scale", "matched pairs", "a scoping review", "the Nordic sample"),
    requests=("Find out what is known about the {thing} and give me the three best sources.",
              "Compare the {thing} with what the last report claims.",
              "I need the numbers behind the {thing} for the talk.",
              "Summarize what speaks against the {thing}.",
              "Read up on the {thing} and note what we can use."),
    looks=("I'll open the page on the {thing}.", "Let me read the notes on the {thing}.",
           "Next the paper about the {thing}.", "I look for the figures of the {thing}."),
    folders=("notes/2026", "drafts/report", "data/raw", "refs", "figures/final", "appendix/tables"),
    endings=(".md", ".csv", ".pdf", ".txt", ".ipynb", ".xml"),
    commands=(("count the answers of the {thing}", "python analysis/{word}.py --by {noun} --n {n}"),
              ("draw the {thing}", "Rscript plots/{word}_{noun}.R --seed {n}"),
              ("convert the {thing}", "pandoc drafts/{word}.md -o out/{noun}_{n}.pdf"),
              ("search the notes on the {thing}", "grep -rn '{word}' notes/{noun}")),
    measures=("sample_size", "effect_size_x1000", "dropout", "citations", "response_rate", "pages"),
    errors=("ValueError: column '{word}' has {n} missing values",
            "Error: object '{word}_{noun}' not found at line {n}",
            "error: HTTP 429 from the {word} archive, retry after {n} s"),
    labels=("record", "trial", "grant", "preprint"),
    sites=("https://www.{word}-journal.org/article/{n}", "https://archive.{word}.edu/{noun}/{n}"),
    noise=("In the {word} group the {noun} of {Made} was observed {n} times over the whole period.",
           "{Made} ({n}) reports that {word} and {noun} moved together, which is called plausible.",
           "Earlier work on the {noun} by {Made} used a {word} instrument with fewer items.",
           "Participants described the {noun} as {word}, in {n} of the transcripts.",
           "A table on page {n} lists the {noun} of {Made} by region and {word} category.",
           "The discussion turns to {word} methods and leaves the {noun} for later."),
    reader=("fetch_page", "source"),
)  # fmt: skip

ASSISTANT = Field(
    name="assistant",
    things=("trip to Bergen", "birthday dinner", "tax folder", "piano lesson", "flat insurance",
            "school concert", "garden party", "dentist visit", "phone contract", "book club"),
    acts=("cancel", "move", "book", "confirm", "share", "pay for"),
    jobs=("call the landlord", "send the invitation", "renew the passport", "compare three offers",
          "pick up the parcel", "ask for the receipt", "find a sitter"),
    choices=("the night train", "the corner table", "the yearly plan", "the Saturday slot",
             "a bank transfer", "the smaller room", "the second offer", "the blue invitation"),
    requests=("Help me with the {thing}: what is open and what does it cost?",
              "Look through my mail for anything on the {thing}.",
              "Find two dates that work for the {thing}.",
              "What did they write about the {thing}? Draft an answer.",
              "I keep forgetting the {thing}; put the facts together for me."),
    looks=("I'll search the mail about the {thing}.", "Let me check the calendar for the {thing}.",
           "There is a message on the {thing}.", "Now the papers for the {thing}."),
    folders=("Documents/contracts", "Downloads", "Documents/family", "Mail/attachments",
             "Photos/2026"),
    endings=(".pdf", ".txt", ".csv", ".png", ".md"),
    commands=(("list the papers for the {thing}", "ls -la Documents/{word}/{noun}"),
              ("pack the papers for the {thing}", "zip -r {word}_{noun}_{n}.zip Documents/{word}")),
    measures=("price_eur", "deposit", "seats", "distance_km", "duration_min", "balance"),
    errors=("error: the {word} account asks for a second factor ({n})",
            "Error: calendar entry {n} overlaps with {word} {noun}"),
    labels=("booking", "invoice", "policy", "order"),
    sites=("https://www.{word}-travel.com/offers/{n}", "https://{word}.example.org/{noun}/{n}"),
    noise=("From: {made}@{noun}.example  Subject: your {word} {noun}, offer {n}",
           "We are happy to tell you that the {noun} is still to be had, in {word} or in plain.",
           "0{d}:30  {word} {noun} with {Made} (room {n})",
           "Dear customer, the {word} terms have changed a little; the {noun} is not affected.",
           "Please find the {noun} attached. Greetings from {Made} of the {word} desk.",
           "{n} people looked at this {noun} today; the {word} one is popular."),
    reader=("search_mail", "query"),
    has_plan=False,
)  # fmt: skip

FIELDS = (CODING, RESEARCH, OPERATIONS, ASSISTANT)


def shuffle_things(field: Field, random: Random) -> list[str]:
    """Names for the field's things, no two alike, in a shuffled order."""
    names = [f"{color} {thing}" for color in _COLORS for thing in field.things]
    random.shuffle(names)
    return names


def make_noise(field: Field, random: Random, chars: int) -> list[str]:
    """Lines of no importance as tools print them, about that long together."""
    lines: list[str] = []
    used = 0
    while used < chars:
        line = fill_blanks(random.choice(field.noise), random)
        lines.append(line)
        used += len(line) + 1
    return lines


def fill_blanks(pattern: str, random: Random, **known: str) -> str:
    """A pattern with its blanks filled: a word, a noun, a number, a digit, or what is known."""
    values = {
        "word": random.choice(_COLORS),
        "noun": random.choice(_NOUNS),
        "n": str(random.randrange(11, 9_999)),
        "d": str(random.randrange(1, 9)),
        "made": "".join(random.choices(_SYLLABLES, k=3)),
        **known,
    }
    while "{made}" in pattern:
        pattern = pattern.replace("{made}", "".join(random.choices(_SYLLABLES, k=3)), 1)
    for name, value in values.items():
        pattern = pattern.replace("{" + name + "}", value)
        pattern = pattern.replace("{" + name.capitalize() + "}", value[:1].upper() + value[1:])
    return pattern


# Real output is full of names that stand in it once; without them a rare word would give away
# what was planted.
_SYLLABLES = (
    "ba", "cor", "del", "fen", "gri", "hal", "jin", "kor", "lum", "mar", "nov", "pel", "qui", "ros",
    "sta", "tev", "ul", "vor", "wen", "zan", "bri", "cla", "dor", "ki", "lo", "mi", "ne", "ra",
)  # fmt: skip
_NOUNS = (
    "anchor", "basket", "beacon", "bundle", "canal", "cargo", "ceiling", "channel", "circuit",
    "cluster", "column", "corner", "cursor", "drawer", "engine", "feather", "filter", "folder",
    "frame", "gallery", "garden", "handle", "harbor", "hinge", "kettle", "ladder", "lantern",
    "ledger", "locker", "magnet", "mirror", "needle", "notice", "orchard", "packet", "paddle",
    "panel", "pocket", "pulley", "ribbon", "saddle", "sensor", "shelf", "signal", "socket",
    "spindle", "station", "switch", "ticket", "tunnel", "valve", "window",
)  # fmt: skip
