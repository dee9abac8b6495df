"""The many ways people and agents state rules, decisions, tasks and doubts, and ways to miss them.

Never tune a detector to the wordings under `apart`: they measure what it was not written for.
"""

from __future__ import annotations

from typing import NamedTuple


class Wordings(NamedTuple):
    """Ways to say one kind of thing: common ones, and ones no pattern is likely to know."""

    common: tuple[str, ...]
    apart: tuple[str, ...]


RULES = Wordings(
    common=(
        "Never {act} {thing}.",
        "Do not {act} {thing}, even if a test asks for it.",
        "Please don't {act} {thing} without asking me.",
        "You must not {act} {thing} before {when}.",
        "Under no circumstances {act} {thing}.",
        "From now on {thing} is only changed together with {person}.",
        "Make sure {thing} stays as it is until {when}.",
        "Whatever happens, keep {thing} working for {team}.",
        "{Thing} is off limits.",
        "Always tell {person} before you {act} {thing}.",
        "No new dependencies in {thing}.",
        "I prefer short notes over long ones for {thing}.",
        "It is mandatory that {person} signs off on {thing}.",
        "Only use the staging copy of {thing}.",
        "You are not allowed to {act} {thing} on a weekday.",
        "Stick to the old format for {thing}.",
        "Bitte {thing} niemals anfassen, bevor {person} zustimmt.",
        "Il ne faut jamais modifier {thing} sans {person}.",
        "Nunca cambies {thing} antes de {when}.",
    ),
    apart=(
        "Leave {thing} alone; {person} owns it.",
        "Treat {thing} as read-only.",
        "{Thing} is frozen until {when}.",
        "If {thing} has to change, {person} hears about it first.",
        "Nobody outside {team} gets to see {thing}.",
        "I would be in real trouble if anything happened to {thing}.",
        "{Person} was furious the last time somebody came near {thing}, so steer clear of it.",
        "The ceiling for {thing} is {amount} euros.",
        "We promised {team} that {thing} goes out by {when}.",
        "Anything to do with {thing} goes through {person}.",
        "Please spare {thing} this time.",
        "Ask me first when {thing} comes up.",
        "Refrain from touching {thing} while {team} is on call.",
        "{Thing} has to come out of this unchanged.",
        "For {thing} I want answers in French for as long as this lasts.",
        "Python 3.9 is what {thing} runs on, so nothing newer there.",
        "Consider {thing} sacred.",
        "Everything about {thing} is confidential.",
        "Lass {thing} bitte in Ruhe.",
        "Deja {thing} como está.",
    ),
)

DECISIONS = Wordings(
    common=(
        "Decision: we use {choice} for {thing}, because {why}.",
        "Let's go with {choice} for {thing}, since {why}.",
        "I settled on {choice} for {thing} because {why}.",
        "We agreed on {choice} for {thing}: {why}.",
        "For {thing} I chose {choice} instead of {other}, because {why}.",
        "We'll use {choice} for {thing} as {why}.",
        "I'm going with {choice} for {thing}; {why}.",
        "We are sticking with {choice} for {thing}, because {why}.",
    ),
    apart=(
        "{Choice} it is for {thing}; {why}.",
        "{Thing} gets {choice}, as {why}.",
        "The vote on {thing} fell on {choice}: {why}.",
        "Everyone is happy with {choice} for {thing}, {why}.",
        "So {choice} wins for {thing}, given that {why}.",
        "{Thing} will be done the {choice} way, {why}.",
    ),
)

REVERSALS = Wordings(
    common=(
        "We no longer use {old} for {thing}; it is {choice} now, because {why}.",
        "I was wrong about {old}: for {thing} we switch to {choice}, because {why}.",
        "On second thought, {choice} instead of {old} for {thing}, since {why}.",
        "Reverting: {thing} goes from {old} to {choice}, because {why}.",
    ),
    apart=(
        "Scratch {old}: {thing} takes {choice} after all, {why}.",
        "I changed my mind about {thing}, make it {choice} and drop {old}; {why}.",
        "Forget what I said on {thing}: {choice}, and {old} is out, {why}.",
    ),
)

TASKS = Wordings(
    common=(
        "Still to do: {job} for {thing}.",
        "TODO: {job} for {thing}.",
        "We still need to {job} for {thing}.",
        "Remaining: {job} for {thing}.",
        "Next step after this is to {job} for {thing}.",
    ),
    apart=(
        "Somebody has to {job} for {thing} one of these days.",
        "Nobody has gotten round to it yet: {job} for {thing}.",
        "Before {when} I want you to have a go at {thing}, that is, {job}.",
        "Park this for later: {job} for {thing}.",
        "Once this is over, {job} for {thing}, please.",
        "{Person} is waiting for us to {job} for {thing}.",
    ),
)

DOUBTS = Wordings(
    common=(
        "Hmm, I'm not sure that {thing} is the cause; let me verify that first.",
        "Wait, actually {thing} might be read twice here.",
        "Perhaps {thing} is stale, I have not double-checked it.",
        "But wait, {thing} seems to be counted before the filter.",
        "It is unclear whether {thing} is still in use.",
    ),
    apart=(
        "Something about {thing} smells off to me.",
        "I would not bet on {thing} being right.",
        "Take {thing} with a grain of salt until {person} has looked.",
        "My gut says {thing} is half the story.",
    ),
)

# What sounds like a rule and is none.
IDLE = (
    "I never understood why this takes so long, by the way.",
    "The old team always joked about it.",
    "You must be tired of these lists by now.",
    "That was not the part I worried about.",
    "It only took me an hour to find the page.",
    "Nice, that reads much better.",
    "Thanks, go on.",
    "Good. What else did you see?",
    "OK, I looked at it on my phone and it seems fine.",
    "Interesting, I had expected more of them.",
    "Let me know how far you get.",
    "Sounds good to me, please continue.",
    "Makes sense, and the second one is the one I meant.",
    "I was away for lunch, where are we?",
)

# What an agent says along the way and nobody will ask for.
CHATTER = (
    "The {noun} looks the way I expected, apart from the part called {made}.",
    "I compared {made} with {made} and saw no difference worth a note.",
    "Most of what is printed there concerns the {word} {noun}, which we can ignore.",
    "There are about {n} entries, and the {noun} is mentioned in a handful of them.",
    "That explains the {word} lines, because {made} writes them on every start.",
    "The second half repeats the first with another {noun}, so I skimmed it.",
    "I also see {made}, which has nothing to do with the question as far as I can tell.",
    "In short, the {word} side is in order and the {made} side is what takes the time.",
    "If I read it correctly, {made} hands the {noun} over and {made} waits for it.",
    "The names are confusing: {made} is the {noun}, while {word} is only a label.",
    "Someone left a remark on {made} there, dated and signed, about the {noun}.",
    "The order is what one would think, first the {noun}, then {made}, then the rest.",
    "I would describe the {noun} as {word} rather than broken.",
    "It took {n} steps in the log, of which {made} is by far the longest.",
)

REASONS = (
    "it halves the waiting time",
    "the audit in spring asks for it",
    "two of the three suppliers accept it",
    "it needs no second account",
    "the numbers of last week speak for it",
    "the other one broke twice in May",
    "it is what the team in Porto knows best",
    "it costs a third of the alternative",
    "nobody has to be retrained",
    "it can be undone within a day",
    "the licence allows it",
    "it survived the trial run",
)
PEOPLE = (
    "Ana Kowalski", "Tom Brandt", "Ruth Okafor", "Jiro Tanaka", "Lena Fischer", "Marek Novak",
    "Sofia Lind", "Paul Adeyemi", "Nadia Haddad", "Ivan Petrov", "Greta Solberg", "Luis Ortega",
)  # fmt: skip
TEAMS = (
    "the payments team", "the night shift", "the board", "the pilot customers", "the Lisbon office",
    "the auditors", "the support desk", "the steering group",
)  # fmt: skip
DATES = (
    "March 14", "the 3rd of June", "Friday noon", "the end of Q3", "2027-02-01", "next Tuesday",
    "the release on the 19th", "October 8",
)  # fmt: skip
