"""Things users say, invented: constraints that stand, and ordinary words that only sound so.

The held-out sets were written before the detector and are measured, never tuned on. One message a
line; a sign ⏎ stands for a line break, and ⟦ ⟧ enclose the constraint where more is said with it.
"""

from __future__ import annotations


def _lines(block: str) -> tuple[str, ...]:
    return tuple(line.replace("⏎", "\n") for line in block.strip().splitlines())


DEVELOP_CONSTRAINTS = _lines("""
Never push to main.
Please fix the limiter. ⟦Do not touch src/auth/keys.py.⟧ Then run the tests.
You must not commit generated files.
Always run the formatter before you commit.
Only use the staging key.
From now on, answer in German.
Whatever happens, the old endpoint stays reachable.
I prefer tabs over spaces.
No new dependencies.
Under no circumstances delete rows from the orders table.
The deadline is Friday at noon.
Stick to Python 3.9.
Keep every function under 40 lines.
Don't use emojis in commit messages.
The API must stay backwards compatible.
You are not allowed to change the database schema.
Responses have to fit into 200 tokens at most.
Ask me before you install anything.
I want all dates in ISO format.
The budget for the trip is at most 1,500 euros.
Everything under vendor/ is off limits.
I'm allergic to peanuts, so no recipes with nuts.
Going forward, write the tests first.
Make sure that every answer cites its source.
Don't send any email without my approval.
We are on Node 18 and will not upgrade.
Use British spelling throughout.
I'd rather you asked than guessed.
Customer names must never appear in the logs.
Do it step by step, ⟦and never run two migrations at once⟧.
Whenever you show code, add a short comment on what it does.
Latency has to stay below 200 ms.
It needs to be finished by the end of March.
I don't want you to rewrite history.
Pin numpy to 1.26; anything newer breaks us.
Hands off the billing module.
Please always include units with numbers.
Be careful with prod: ⟦read-only access, nothing else⟧.
Avoid global state in this codebase.
The report should never exceed two pages.
Ändere niemals die Migrationen.
Bitte antworte ab jetzt immer auf Deutsch.
Die Schnittstelle darf nicht geändert werden.
Benutze ausschließlich den Testserver.
Ne touche jamais au dossier vendor.
À partir de maintenant, réponds en français.
Il ne faut pas modifier le schéma.
Nunca borres los datos de producción.
Usa siempre la rama develop.
No toques el archivo de configuración sin mi permiso.
Non modificare mai lo schema del database.
Usa solo la chiave di prova.
Nunca faça push direto na main.
Sempre rode os testes antes do commit.
永远不要直接推送到主分支。
必须使用 Python 3.9。
本番環境には絶対に触らないでください。
必ずテストを実行してからコミットしてください。
Никогда не пушь в main.
절대 main 브랜치에 푸시하지 마세요.
""")

DEVELOP_ORDINARY = _lines("""
Please fix the failing test in test_limits.py.
Never mind, I found it.
Don't worry about it.
It must be the cache.
Only fix the typo in this line.
What must I do to run this?
Why does it never finish?
I never understood how this works.
You must be kidding.
That must have been a long day.
Can you only show the diff?
I always get this error when I start the server.
The build always fails on Mondays.
It never worked on my machine.
Is it required to restart the server?
I don't know what this does.
I don't think that's right.
Don't ask me why, but it works now.
Hello!
continue
Thanks, that's great.
Yes, go ahead.
no, the other file
Show me the log of the last run.
Run the tests again.
Let's try another approach.
The only thing left is the changelog.
I only see two failures now.
There is only one test left.
She never called me back.
We always had a great time at the lake.
He must love that dog.
I have to leave now, see you later.
I need to fix this before lunch.
We should probably look at the logs first.
Maybe we should use Redis?
Should I always use async here?
When should I never use a mutable default?
What is the maximum size of a message?
How do I make sure that only admins can see this page?
I want to learn how the limiter works.
I want to go home.
I need your help with a bug.
Could you explain why we need the lock?
The docs say you must call close() first.
According to the README, you should never edit this file by hand, is that right?
The error says "you must provide a key".
It prints `never reached` and stops.
```⏎# never call this twice⏎assert only_once⏎```⏎What does this do?
Look at this code:⏎```python⏎if not allowed: raise Forbidden('must not')⏎```
I don't have the key here.
I don't see any difference.
don't bother, I'll do it myself
Don't forget to have fun!
Don't be sorry.
Make sure it compiles.
Make sure the test passes.
Keep going.
Keep it up!
Keep up the good work.
Do you always sort the results?
Did you change only one file?
Undo the last change.
Rename the function to load_all.
Add a test for the empty case.
Why is the key required?
It has to be somewhere in the config.
This has to be a joke.
I had to restart it twice.
You have to see this movie.
You should have seen her face.
We have no idea what happened.
No problem.
No worries.
No, that's wrong.
No more errors, nice.
There are no new messages.
I have no preference.
Nothing happened.
Nobody uses this anyway.
It is not allowed to start, it says permission denied.
The request was forbidden by the proxy.
I got a 403 Forbidden.
The field is mandatory according to the form.
Before we go on, what's the status?
By the way, how was your weekend?
I'll be back by Friday.
The meeting is on Friday at noon.
My birthday is in March.
The trip cost 1,500 euros.
We spent at most an hour there.
It took less than 200 ms.
We upgraded to Node 18 yesterday.
Which Python version do we use?
I installed Python 3.9 on the laptop.
Remember when we went camping?
I remember that we used a queue before.
From now on it should be easier, right?
I like the second version.
I like hiking and painting.
I love how this turned out.
I hate Mondays.
I'd love to see that.
I'd rather not say.
I prefer not to think about it, haha.
My sister prefers tea.
Which one do you prefer?
They always use the staging key, it seems.
Whatever happens next, we had fun.
Whatever, it's fine.
Just do it.
Just the first one, please.
Just this once, skip the hook.
For now, leave the second test alone.
Skip that one for now.
Not now.
Not sure what you mean.
Not yet.
I can't reproduce it.
I can't find the file you mean.
I cannot believe it.
We can't wait to see you.
You can't make this up.
You can delete that branch now.
Delete the temp file you made.
Use the other function here.
Use a dict instead of the list here.
Change the timeout to 30 seconds.
Set the limit to 500.
Increase the maximum to 2,000.
What's the deadline for this?
Is there a limit on the number of pins?
Try again with the verbose flag.
Please send me the summary.
Write a poem about autumn.
Summarize this article in three points.
Translate this sentence into French: "You must not smoke here."
Explain the difference between never and not ever.
Give me only the number.
Just answer yes or no.
Open the file and tell me what line 40 says.
I tried everything, nothing works.
It must be nice to have so much time.
It must've been hard.
They must be proud of you.
Everything must come to an end, as they say.
I'm trying to add rate limits to my Flask app so that users can't flood it, can you help?
I'm working on a budget tracker and need help with the login form.
I'm not sure how to keep the state between requests.
I want to make sure I understand: the lock is taken twice?
I need to ensure the data is valid before saving; how would you do it?
I'm using Python 3.11 and Flask 2.3, and I get this traceback:⏎KeyError: 'user'
I've been trying to keep my code clean, but it's getting messy.
Can you review this function and suggest improvements?
How can I avoid a race here?
What's the best way to avoid global state?
Is there a way to always show the sidebar?
I was thinking we could require a login for this page.
The client requires an invoice number, so where do I put it?
My boss never reads the reports.
My kids are only five and seven.
Only two more days until the holidays!
If only it were that easy.
Not only that, it also crashed.
I only wanted to say thanks.
I've always wanted to learn the piano.
We never found out who did it.
You never know.
Never thought I'd say this, but it works.
Better late than never.
Always happy to help!
As always, great work.
See you, and don't work too hard!
Don't give up.
Don't you think it's too slow?
don't understand, can you say it differently?
Stop.
Stop here.
Wait, don't run that.
No need to do that.
Avoiding the question, are we?
I try to avoid sugar but it's hard.
My flight is on May 3, I need to be there by 9.
I'd like to book a flight to Seattle.
I'd like to change my order, please.
Could you check whether the order was sent?
My user id is mia_li_3668.
The order number is #W4923227.
That sounds good, please proceed.
Yes, please use the credit card ending in 7447.
I don't have any certificates left.
I need to cancel my reservation.
I understand, thank you for your help.
That would be all, thanks.
Keine Ahnung, was da los ist.
Mach dir keine Sorgen.
Das muss am Cache liegen.
Warum läuft das nie durch?
Je ne sais pas.
Ne t'inquiète pas.
C'est toujours pareil avec lui.
No te preocupes.
Debe de ser la caché.
Non preoccuparti.
Non lo so.
Não se preocupe.
Não sei o que é isso.
别担心。
这个必须重启吗？
心配しないでください。
Не волнуйся.
Должно быть, это кэш.
걱정하지 마세요.
왜 항상 실패하나요?
""")

HELD_OUT_CONSTRAINTS = _lines("""
At no point may the agent write to the production database.
Treat the public interface as frozen.
Nothing gets merged without a second pair of eyes.
Leave the license headers exactly as they are.
I'd like you to reply in short bullet points from here on.
Spaces, not tabs, please, everywhere.
Metric units only.
It is essential that no personal data leaves the EU.
Any change to the pricing code needs my sign-off first.
You may read the logs, but you may not change anything on that host.
We have to support Internet Explorer 11, sadly, so no arrow functions.
Refrain from editing the lock file by hand.
Total spending can't go over 300 dollars.
This has to be delivered no later than the 14th.
In every reply, tell me how sure you are.
Each commit message starts with the ticket number.
Please don't ever call the payment API from tests.
Secrets never go into the repository.
I am vegetarian, please keep that in mind for all meal plans.
When in doubt, ask; do not guess.
We don't do force pushes here.
Limit yourself to the standard library.
Our style guide forbids wildcard imports.
The tests shouldn't take more than five minutes in total.
Please address me formally.
For the rest of this project, use the new logger.
Remember: the customer must not see internal ids.
Two-space indentation is mandatory in the YAML files.
Please sort out the import error, ⟦but without changing the public signature⟧.
I'd prefer aisle seats on all my flights.
I like explanations with an example first, theory second.
It's crucial that you back up the table before every migration.
Don't you dare rename the columns.
Absolutely no downtime during the switch.
You can refactor as you like, ⟦as long as the tests stay untouched⟧.
Postgres 13 is what we run, so nothing that needs a later version.
Every public function needs a docstring.
Please check with me before spending any money.
No meetings before 10 am, ever.
Consider the folder legacy/ as read-only.
Auf gar keinen Fall die Produktivdaten löschen!
In Zukunft bitte keine englischen Kommentare mehr.
Commits müssen immer eine Ticketnummer enthalten.
Bitte nichts ohne Rücksprache installieren.
En aucun cas tu ne dois supprimer les sauvegardes.
Les réponses doivent toujours être en anglais.
Merci de ne pas utiliser de bibliothèques externes.
Bajo ningún concepto publiques la clave.
A partir de ahora, responde solo en español.
Está prohibido usar librerías externas.
Per nessun motivo devi toccare la produzione.
D'ora in poi rispondi sempre in italiano.
Em hipótese alguma altere o banco de produção.
Prefiro respostas curtas e diretas.
请始终用中文回答。
未经我的同意，不得修改配置文件。
今後は日本語で答えてください。
外部ライブラリの使用は禁止です。
Ни в коем случае не удаляй резервные копии.
앞으로는 반드시 한국어로 답변해 주세요.
""")

HELD_OUT_ORDINARY = _lines("""
Could you look at the stack trace from last night?
never mind the second question
Must be Monday.
it must have slipped through the review
They must've changed the endpoint again.
Only one of the two workers came up.
I only meant the second paragraph.
I've only got ten minutes, what's the short version?
Is that the only option?
Don't panic, it's just the staging box.
don't get me wrong, I like it
I don't mind either way.
I don't remember where I put the notes.
I don't like where this is going, lol
You don't say!
We don't have a test for that yet.
The tests don't run on my laptop.
They don't answer the phone.
It doesn't have to be perfect.
You don't have to do it today.
You needn't hurry.
There's no need to apologize.
No idea.
No luck so far.
no thanks
No, I meant the other branch.
No one told me about it.
No wonder it was slow.
There was no response from the server.
Nothing to add from my side.
Nothing beats a good coffee.
My cat never listens.
The queue never drains, any idea why?
It never rains here in July.
I have never been to Japan.
I'd never have guessed!
I never got the email.
You're never going to believe this.
Has it ever worked? I never saw it green.
Never seen that error before.
Always good to hear from you.
The light is always on in that room.
My mom always said that hard work pays off.
I always forget the flag for that.
This always happens to me.
Do we always need the lock?
Why is the first run always slower?
How do I always round up in SQL?
What should I avoid when I deploy to Heroku?
How can I prevent users from uploading files over 10 MB?
How would you forbid deletes on that table?
What does "must not be null" mean here?
Who is allowed to merge?
When is the report due?
Which version should we target?
Are there limits on the free plan?
Would you rather use Redis or Memcached?
Do I have to restart it?
Shouldn't it be the other way round?
Can we stick with the old parser?
Can you make sure the file exists?
Can you keep an eye on the queue while I'm gone?
Could you avoid the nested loop in that function?
Please make the button blue.
Please add a retry to the download in fetch.py.
Please have a look at the attached log.
Please run only the failing test this time.
Please ignore my last message.
Just revert that one line.
Just checking in.
Only rerun test_burst, the rest was green.
only the second one, thanks
Change only this import for now.
Leave it for now.
Leave that as it is for today, we'll look at it tomorrow.
Let's leave it at that.
Let's not overthink this one.
Let's keep the meeting short today.
Let's stick with your first idea for the title.
Let's go with the second option.
Keep me posted.
Keep in touch!
Keep the change.
Keep trying, you're close.
Stay safe!
Stay tuned.
Take your time.
Be careful out there.
Be right back.
Remember the bug from last week? It's back.
Remember to breathe.
Make it two columns.
Make sure to say hi to your sister!
Make sure you get some sleep.
Use the second screenshot for the header.
Use this as the title: Never Stop Learning
Use whichever you find first.
Add the word "only" before "admins" in the heading.
Replace "must" with "should" in the second sentence.
Translate: "Never give up."
Rewrite this so that it says you must register first.
The sign said "no dogs allowed".
The linter says: do not use bare except.
The compiler complains that the function must return a value.
The doc claims the key is required, but it works without.
The teacher told us never to divide by zero.
My landlord doesn't allow pets.
The law requires a receipt for that.
In chess you must move the king out of check.
You have to be at least 18 to rent a car there.
You have to try the new ramen place!
You should go see the doctor.
You must come visit us some time!
You must have heard about it.
You may be right.
You can't be serious.
You can not imagine how happy I am.
We can't figure out why it hangs.
We cannot reach the host since this morning.
I can't wait for Friday.
I cannot log in any more.
I couldn't care less.
I have to pick up the kids at four.
I have to admit it looks good.
I must say, I'm impressed.
I must have missed that.
I need to get this done by tomorrow, can you help?
I need a function that returns only even numbers.
I need a regex that never matches an empty string.
I need the list of all users.
I want pizza.
I want to see what happens if we raise it.
I want a list of the ten largest files.
I wanted to ask you something.
I'd like a second opinion on this.
I'd like to know the status of my refund.
I'd rather be at the beach right now.
I'd prefer the blue one.
I like it!
I like my new bike.
I liked the earlier draft more.
I hate this bug.
I hate to say it, but you were right.
My favorite color is green.
My brother is vegetarian and my sister is vegan.
The dog is only allowed in the kitchen, poor thing.
We only have two bedrooms, so it's a bit tight.
We were only joking.
We always go to Italy in summer.
We never really talked about it.
We must have met before.
We had to cancel the trip.
We need milk and eggs.
We need to talk.
We moved from MySQL to Postgres 13 last year.
We tried Python 3.12 yesterday and it was faster.
We're running Django 4.2 and I see this warning, what is it?
The release was on Friday.
The concert is on the 14th.
The deadline passed already, oh well.
They extended the deadline, what a relief.
The train leaves at 9 and gets there by noon.
By Friday I was exhausted.
It was due to a missing comma.
It was under 200 ms before the change.
It costs at most ten dollars, I guess.
It held no more than twenty people.
It maxed out at 500 requests.
It took no longer than an hour.
My limit is three cups of coffee a day, haha
The maximum was 42.
The budget meeting went well.
The budget was 300 dollars and we spent it all.
The whole trip was within budget!
The rule of thumb is one worker per core, right?
From now on I'm going to exercise more.
From here on it was all downhill.
In the future, cars will fly.
For the rest of the day I'll be in meetings.
Every time I run it I get another result.
Whenever I open the page it flickers.
Whenever you have time, take a look at the PR.
Every day is different here.
Each of them sent a card.
All of the tests are green.
All good on my side.
All I wanted was a quiet evening.
Everything works now, thank you!
Everything was closed.
Anything else?
Anything you want to add?
Whatever you think is best.
Whatever it was, it's gone.
No matter, I fixed it.
At all events, we had fun.
Under the circumstances, that's fine.
Without you I would have given up.
Without the flag it crashes.
It runs without asking for a password, is that ok?
I did it without touching the config.
I was told to ask for approval, how does that work?
The approval came in this morning.
Ask her about the trip.
Ask me anything!
Ask the API for the newest order and print it.
Check with curl whether the port is open.
Stop the server, please.
Stop it, you're making me blush.
Avoid the highway, there's a jam, is what they said on the radio.
Refactor load_all so it reads better.
Bump the version to 2.4.0 and tag it.
Downgrade numpy to 1.26 and run the tests again.
Upgrade everything.
Set max_tokens to 4096.
Limit the query to ten rows and show me the result.
Reduce the image to under 1 MB.
Shorten it to at most 100 words.
Make the summary no longer than a paragraph.
Write an essay on why we must protect the oceans.
Write a function that only accepts strings.
Write a test that checks that deletes are forbidden.
Draft an email that tells the team not to park in the front lot.
Explain what "at most once" delivery means.
List three things one should never do in an interview.
Tell me a joke, but keep it clean.
Fix it so that the modal doesn't close on click.
Fix the form: the email must be validated.
Here's the log:⏎ERROR must not be empty⏎WARN never used⏎What now?
```yaml⏎only:⏎  - main⏎never: true⏎```⏎Is this valid?
`git push --force` never asks, does it?
Run `make check` and show me only the summary.
I'm building a quiz app where players must answer in ten seconds, and I'm stuck on the timer.
I'm trying to keep my weight under 80 kg, any tips?
I'm always late, sorry.
I'm not allowed to drive yet, so my dad picks me up.
My doctor says I should avoid salt, what else tastes good?
Our old client never paid on time.
Our son must be asleep by now.
Same here, always!
So it only fails on Windows?
Some of them never came back.
Sounds like a must-see.
That's a no-go area for tourists, I heard.
That's the only way I know.
That should never have happened!
This should only take a minute.
Wow, I never knew that about you!
Why can't we just use only one table?
Hast du das immer so gemacht?
Ich muss jetzt los.
Das war noch nie so langsam.
Kein Problem, mach einfach weiter.
Il doit être fatigué.
Je n'ai jamais vu cette erreur.
Nunca he visto este error.
Tengo que irme.
Non ho mai visto questo errore.
Eu nunca vi esse erro.
我从来没见过这个错误。
不要紧，继续吧。
いつもありがとうございます。
Я никогда не видел такой ошибки.
저는 항상 늦어요.
""")
