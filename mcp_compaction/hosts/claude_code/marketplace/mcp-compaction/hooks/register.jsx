/*
 * mcp-compaction inside Claude Code: compactions are answered by the view of our own server.
 *
 * This module asks and shows; what is kept, cut and pinned is decided there. Whatever fails, or takes
 * too long, the host does what it would have done without it.
 *
 * Where it asks: the server, which `.mcp.json` starts with MCP_COMPACTION_VIEWS, writes its address and
 * a token to `.views/<id>.json` in the plugin's own folder, which is `$.plugin.root` here: once by the id
 * of the host's process, whose child it is, and once by that of the session as the host named it then.
 */

const COMPACT_MS = 20000; // the host's own compaction takes as long
const ASK_MS = 1500;
const START_MS = 30000; // the host starts its servers beside the first turn
const LOOK_MS = 200;
const APPEND_MS = 300; // rows come several at once
const PROSE_MS = 30000; // that a compaction waits for the session's own model
const CACHE_LEFT_MS = 60000; // of the provider's cache, when a person is told that it ends
const LEAST_WORTH = 60000; // tokens of a window, from which on that is worth a word
const MOST_OF_LIMIT = 80; // percent of any rate limit, from which on its model is asked nothing more

// Our own four, which need no question; a rule of the user's own stands above this.
const OWN = /^mcp__plugin_mcp-compaction_compaction__(compress_context|pin_constraint|recall_archived|context_stats)$/;

// What a subagent's view refers to stands in its own session.
const RECALL = /^mcp__(plugin_mcp-compaction_)?compaction__recall_archived$/;

const PINNED = '[pinned: rules, open tasks and facts in force, word for word]';

// A record of ours in a row that nobody typed.
const RECORD = /^\[(pinned: rules|digest d\d+|index; a record|kept word for word[,;])[^\n]*\]$/;
const UNTYPED = new Set(['unclassified', 'engine']);

const RUNS = new Set(['pending', 'running', 'waiting']); // subagents, of all that the host lists

const sessions = new Set(); // ids that the chat had: a file has the one of the server's start
const agents = new Map(); // subagents whose window is our view, and the names of their sessions
const now = {
  process: null, // the host's own id
  address: null,
  isThere: null, // whether the server has answered last; null: it has just been started
  started: 0,
  isInteractive: false,
  version: '',
  context: {}, // what the host counts
  limits: {}, // where it compacts by itself; `at` is null where it does not
  shown: { pins: 0, last: '' },
  shrinks: false, // whether requests of a running turn are made smaller, too
  busy: '', // what is going on, for the line
  hasNews: false,
  falls: 0, // compactions that were left to the host
  why: '', // the server has said of the last one
  offloadOver: null, // tokens over which a result becomes a preview when it comes; null: none does
  viewOf: null, // the chat whose window is our view
  latePins: null, // that went with a prompt since
  hookPins: '', // that hooks have shown: the transcript may not have it yet
  prompts: -1, // that the chat had when the last one was sent
  isHostCompacting: false,
  tasks: null, // what ran in the background when the last turn ended
  moment: '', // why compacting costs least now
  cacheMs: 0, // how long the provider's cache holds this chat; 0: it has told of none
  timers: [], // that tell of its end
  writing: null, // the session's own model, which is asked for prose
};

/** The id of the host's process; empty where no shell tells it. */
const readProcess = async ($) => {
  try {
    return (await $.process.run(['/bin/sh', '-c', 'echo $PPID'])).stdout.trim();
  } catch {
    return ''; // as on Windows: a session that is continued may not be found there
  }
};

const find = async ($, session) => {
  now.process ??= await readProcess($);
  sessions.add(session);
  for (const id of [now.process, session, ...sessions]) {
    try {
      return JSON.parse(await $.fs.read(`${$.plugin.root}/.views/${id}.json`));
    } catch {} // of another id, or not yet there
  }
  throw new Error('the server is not there');
};

/** Where the server is; what may take long waits for one that the host has just started. */
const findSoon = async ($, session, ms) => {
  for (;;) {
    try {
      return await find($, session);
    } catch (error) {
      const isStarting = now.isThere === null && (await $.clock.now()) - now.started < START_MS;
      if (ms < COMPACT_MS || !isStarting) throw error;
      await new Promise((resolve) => $.clock.after(LOOK_MS, resolve));
    }
  }
};

/** What runs in the background: subagents now, commands and schedules when a turn last ended. */
const listRunning = async ($) => {
  const told = now.tasks ? [now.tasks] : [];
  try {
    const at = await $.clock.now();
    const agents = (await $.agent.list()).filter((one) => RUNS.has(one.status));
    const names = agents.flatMap((one) => [one.id, one.description]);
    return [...told, { at, kinds: ['agent'], names }];
  } catch {
    return told; // an older host: calls tell of them
  }
};

const post = async ($, path, body, ms) => {
  const session = await $.session.id();
  now.address ??= await findSoon($, session, ms);
  const { url, token } = now.address;
  const told = {
    session,
    interactive: now.isInteractive,
    version: now.version,
    falls: now.falls,
    window_tokens: now.limits.window,
    limit_tokens: now.limits.at,
    running: await listRunning($),
    ...body,
  };
  const answer = await $.http.fetch(`${url}/claude/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(told),
  });
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return JSON.parse(answer.text);
};

/** What the server answers; throws where it does not, or not in time. */
const ask = async ($, path, body = {}, ms = ASK_MS) => {
  let timer;
  const late = new Promise((_, reject) => {
    timer = $.clock.after(ms, () => reject(new Error(`no answer in ${ms / 1000} s`)));
  });
  try {
    const told = await Promise.race([post($, path, body, ms), late]);
    now.isThere = true;
    return told;
  } catch (error) {
    const isStarting = now.isThere === null && (await $.clock.now()) - now.started < START_MS;
    now.isThere = isStarting ? null : false;
    now.address = null; // another server may have been started since
    throw error;
  } finally {
    timer.cancel();
  }
};

/** Reads the host's limits, which its user may move within a chat: with /autocompact, /model, /config. */
const learn = async ($) => {
  try {
    const { context } = await $.session.usage({ breakdown: 'summary' });
    const { maxTokens, autoCompactThreshold } = context.breakdown ?? {};
    now.limits = { window: maxTokens ?? context.window, at: autoCompactThreshold ?? null };
  } catch {} // as they were
};

const look = async ($) => {
  try {
    now.shown = (await ask($, 'status')) ?? now.shown;
  } catch {} // the line says so
  $.ui.invalidate('ui.render');
};

const sayBusy = ($, what) => {
  now.busy = what;
  $.ui.invalidate('ui.render');
};

const forgetMoment = () => {
  now.timers.splice(0).forEach((timer) => timer.cancel());
  now.moment = '';
};

const sayMoment = ($, what) => {
  now.moment = what;
  $.ui.invalidate('ui.render');
};

/** Tells a person who is away when the provider's cache of the chat ends, and that it has ended. */
const watchCache = ($, usage) => {
  forgetMoment();
  const { ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: long } = usage ?? {};
  now.cacheMs = short ? 300000 : long ? 3600000 : now.cacheMs;
  if (!now.cacheMs || !now.isInteractive) return;
  const tell = (ms, what) => now.timers.push($.clock.after(ms, () => sayMoment($, what)));
  tell(Math.max(0, now.cacheMs - CACHE_LEFT_MS), 'the cache ends in a minute, then a prompt pays');
  tell(now.cacheMs, 'the cache has ended, the next prompt pays');
};

/** Why the session's own model is not asked now; empty where it may be. */
const whyNotAsked = async ($) => {
  const { rateLimits } = await $.session.usage();
  const near = (rateLimits ?? []).find((one) => one.percentUsed > MOST_OF_LIMIT);
  return near ? `${near.percentUsed} % of a rate limit (${near.kind}) are used` : '';
};

/** Has the session's own model answer over its own window, which its provider has in its cache. */
const writeProse = ($, question) => {
  const write = async () => {
    const began = await $.clock.now();
    let told;
    try {
      const reason = await whyNotAsked($);
      told = reason ? { isAnswered: false, reason } : await $.model.fork({ prompt: question });
    } catch (error) {
      told = { isAnswered: false, reason: String(error?.message ?? error) };
    }
    const { isAnswered, text, usage, reason } = told;
    const seconds = ((await $.clock.now()) - began) / 1000;
    await ask($, 'prose', { isAnswered, text, usage, reason, seconds }).catch(() => {});
    await look($);
  };
  now.writing ??= write().finally(() => { now.writing = null; });
};

const waitForProse = async ($) => {
  let timer;
  const late = new Promise((resolve) => { timer = $.clock.after(PROSE_MS, resolve); });
  await Promise.race([now.writing, late]);
  timer.cancel();
};

/** The rows that stand after a compaction, or why nothing is changed; throws where neither is known. */
const compact = async ($, e) => {
  const isSubagent = e.agentId !== undefined;
  if (!isSubagent) forgetMoment();
  await learn($);
  const handles = e.messages.map((row) => row.handle);
  const wish = { agent: e.agentId, trigger: e.trigger, instructions: e.instructions, handles };
  if (now.writing && e.trigger === 'manual') await waitForProse($);
  let view = await ask($, 'compact', wish, COMPACT_MS);
  if (view?.ask) {
    writeProse($, view.ask);
    await waitForProse($);
    wish.asked = true;
    view = await ask($, 'compact', wish, COMPACT_MS);
  }
  if (view?.missing) {
    const missing = new Set(view.missing);
    const rows = e.messages.filter((row) => missing.has(row.handle));
    view = await ask($, 'compact', { ...wish, told: Object.fromEntries(rows.map((row) => [row.handle, row])) }, COMPACT_MS);
  }
  if (view?.skip) return { skip: view.skip };
  if (!isSubagent) now.why = view?.why ?? '';
  const own = new Map(e.messages.map((row) => [row.handle, row]));
  const messages = view?.rows?.map((row) => (row.handle ? own.get(row.handle) : row)) ?? [];
  if (messages[0]?.role !== 'user' || messages.includes(undefined)) throw new Error('there is no view');
  if (isSubagent) {
    agents.set(e.agentId, view.session);
    return { messages };
  }
  now.shown = { ...now.shown, last: view.note };
  if (view.hint) $.ui.toast(view.hint);
  now.viewOf = await $.session.id();
  now.latePins = null;
  now.hookPins = '';
  return { messages };
};

/** The host hands its own notes on with the rows that stay: pins that a hook showed are in our view now. */
const withoutOldPins = (e, hasView) => {
  const { content } = e.message;
  if (!hasView || e.door !== 'hook-context' || !JSON.stringify(content).includes(PINNED)) return e;
  if (now.latePins && content.some((block) => block.text?.includes(now.latePins))) return e;
  const told = content.map((block) => (block.type === 'text' ? { ...block, text: 'The pins stand in the view.' } : block));
  return { ...e, message: { ...e.message, content: told } };
};

/** The row that the chat ends with, where it has no more prompts than before: it may have gone back. */
const lastRow = async ($) => {
  const before = now.prompts;
  now.prompts = await $.session.turns();
  return now.prompts > before ? {} : { last: (await $.session.messages()).at(-1) ?? {} };
};

const fallBack = ($, why) => {
  now.viewOf = null;
  now.hookPins = '';
  now.shown = { ...now.shown, last: `left to Claude Code: ${why}` };
  if (!now.falls) $.ui.toast(`mcp-compaction: ${why}; compacted by Claude Code itself`);
  now.falls += 1; // which the server is told with the next question
};

/** A row as it should be kept: a large result as a preview, the whole of which the server has. */
const preview = async ($, e) => {
  const [block, ...others] = e.message?.content ?? [];
  if (now.offloadOver === null || e.door !== 'tool-result' || e.agentId !== undefined || others.length) return e;
  if (block?.type !== 'tool_result' || typeof block.content !== 'string' || block.content.length <= now.offloadOver) return e;
  try {
    const told = await ask($, 'result', { call: block.tool_use_id, tool: e.origin?.tool, text: block.content });
    return told ? { ...e, message: { ...e.message, content: [{ ...block, content: told.preview }] } } : e;
  } catch {
    return e;
  }
};

const kilo = (tokens) => `${Math.round(tokens / 1000)}k`;

const describe = () => {
  const { context, limits, shown } = now;
  const size = limits.at ?? limits.window ?? context.window;
  const fill = context.tokens && size ? Math.round((100 * context.tokens) / size) : null;
  return [
    now.busy,
    now.moment && context.tokens >= LEAST_WORTH ? `${now.moment} ${kilo(context.tokens)} tokens anew: /compact now costs least` : '',
    fill === null ? '' : `window ${fill} % of ${kilo(size)}`,
    shown.threaded || '',
    shown.pins ? `${shown.pins} pinned` : '',
    shown.last ? `last: ${shown.last}` : '',
    now.writing ? 'this chat\'s model writes …' : shown.prose || '',
    shown.trouble ? `mcp-compaction: ${shown.trouble}` : '',
    now.isThere === false ? 'mcp-compaction: server not there' : '',
  ].filter(Boolean);
};

/** @type {import('claude-code').Register} */
export const register = (on) => {
  on('session.start', async ($, e, next) => {
    const started = await next(e);
    now.started = await $.clock.now();
    now.isInteractive = (await $.session.surfaces()).length > 0;
    now.version = (await $.session.version()).version;
    try {
      await $.command.register({ name: 'window', description: 'The context window: pins, receipts, undo, search' });
      await $.command.register({ name: 'uncompact', description: 'Give this chat back what Claude Code compacted away' });
    } catch {} // another plugin has the name
    return started;
  });

  on('session.compact', async ($, e, next) => {
    if (e.trigger === 'precompute') return { skip: 'mcp-compaction needs no summary ahead of time' };
    const what = e.agentId === undefined ? 'compacting …' : 'compacting a subagent …';
    sayBusy($, what);
    const watch = $.clock.every(1000, () => {
      ask($, 'progress').then((told) => sayBusy($, told.doing || what), () => {});
    });
    try {
      return await compact($, e);
    } finally {
      watch.cancel();
      sayBusy($, '');
    }
  }).catch(async ($, e, next) => {
    if (e.agentId !== undefined) return next(e);
    fallBack($, now.isThere ? now.why || 'it had no view' : 'its server did not answer');
    now.why = '';
    now.isHostCompacting = true; // it asks the model for a summary of all that was said
    try {
      return await next(e);
    } finally {
      now.isHostCompacting = false;
    }
  });

  // Within a turn: what is sent is the view, what the host keeps stays whole.
  on('http.fetch', async ($, e, next) => {
    if (!now.shrinks || now.isHostCompacting || next.origin.plugin !== 'engine') return next(e);
    if (!/\/v1\/messages(\?|$)/.test(e.url) || typeof e.init?.body !== 'string') return next(e);
    const names = Object.keys(e.init.headers ?? {}).map((name) => name.toLowerCase());
    if (names.includes('x-claude-code-agent-id')) return next(e);
    // There a changed request would be stopped by the host.
    if (await $.env.get('CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC')) return next(e);
    // A request sent whole after one that was not is refused for its thinking: that is worth a wait.
    const view = await ask($, 'request', { request: e.init.body }, now.isThere === false ? ASK_MS : COMPACT_MS);
    return view ? next({ ...e, init: { ...e.init, body: view.body } }) : next(e);
  }).catch(($, e, next) => next(e));

  on('session.append', async ($, e, next) => {
    if (e.door === 'hook-context') {
      const texts = (e.message?.content ?? []).map((block) => block.text ?? '');
      now.hookPins += texts.filter((text) => text.includes(PINNED)).join('\n');
    }
    const row = withoutOldPins(e, now.viewOf === (await $.session.id()));
    const appended = await next(await preview($, row));
    if (!now.hasNews) {
      now.hasNews = true;
      $.clock.after(APPEND_MS, async () => {
        now.hasNews = false;
        // A first turn may fill the window, and is measured when it ends.
        if (now.limits.window === undefined) await learn($).catch(() => {});
        ask($, 'append').then(
          (told) => {
            now.shrinks = told.shrinks;
            now.offloadOver = told.offload_over;
            if (told.ask) writeProse($, told.ask);
          },
          () => {}, // the transcript has it: the next row tells of it, too
        );
      });
    }
    return appended;
  }).catch(($, e, next) => next(e));

  // Pins that were made elsewhere: they stand with the prompt, behind all that was sent.
  on('prompt.submit', async ($, e, next) => {
    forgetMoment();
    const { context } = await ask($, 'prompt', { shown: now.hookPins, ...(await lastRow($)) });
    if (!context) return next(e);
    now.latePins = context;
    return next({ ...e, context: [...(e.context ?? []), context] });
  }).catch(($, e, next) => next(e));

  on('turn.complete', async ($, e, next) => {
    const done = await next(e);
    if (e.agentId !== undefined) return done;
    watchCache($, e.usage);
    try {
      const { context } = await $.session.usage(); // session.measure comes later
      const told = await ask($, 'turn', { tokens: context.tokens });
      if (told.ask) writeProse($, told.ask);
      if (told.compact && now.isInteractive) await $.session.compact();
    } catch {} // at the next compaction, then
    return done;
  });

  on('classic.SessionStart', async ($, e, next) => {
    if (e.prompt_cache_likely_expired) {
      now.context = { tokens: e.context_tokens, ...now.context };
      sayMoment($, 'the cache has ended, the next prompt pays');
    }
    return next(e);
  }).catch(($, e, next) => next(e));

  on('classic.Stop', async ($, e, next) => {
    if (e.background_tasks && e.session_crons) {
      const names = [...e.background_tasks, ...e.session_crons].map((one) => one.id);
      now.tasks = { at: await $.clock.now(), kinds: ['command', 'schedule'], names };
    }
    return next(e);
  }).catch(($, e, next) => next(e));

  on('session.measure', async ($, e, next) => {
    const measured = await next(e);
    now.context = { ...now.context, ...e.context };
    await learn($);
    await look($);
    return measured;
  });

  on('tool.check', async ($, e, next) => {
    const verdict = await next(e);
    const isAsked = verdict.decision === 'ask' && verdict.rule === undefined && verdict.hook === undefined;
    const isOurs = isAsked && OWN.test(e.tool);
    return isOurs ? { decision: 'allow' } : verdict;
  });

  on('tool.call', ($, e, next) => {
    const session = RECALL.test(e.tool) ? agents.get(e.agentId) : undefined;
    return next(session && e.session === undefined && e.scope === undefined ? { ...e, session } : e);
  }).catch(($, e, next) => next(e));

  on('ui.render', { component: 'AbovePrompt' }, async ($, e, next) => {
    const parts = describe();
    if (!parts.length) return next(e);
    const { Box, Text } = $.ui.resolve(e);
    return (
      <Box>
        <Text dimColor>{parts.join(' | ')}</Text>
      </Box>
    );
  });

  // The host draws every row of the user's role as a prompt, and a row that we build takes no mark.
  on('ui.render', { component: 'UserMessage' }, async ($, e, next) => {
    const { text, origin, isExpanded } = e.props;
    const [label, ...lines] = text.split('\n');
    if (!UNTYPED.has(origin.kind) || !RECORD.test(label)) return next(e);
    const { Box, Text } = $.ui.resolve(e);
    const more = `${lines.length} ${lines.length === 1 ? 'line' : 'lines'}, ctrl+o shows all`;
    return (
      <Box>
        <Text dimColor>{`  ⎿  ${isExpanded ? text : `${label.slice(1, -1)} (${more})`}`}</Text>
      </Box>
    );
  });

  on('command.run', { command: 'uncompact' }, async ($) => {
    try {
      return await ask($, 'uncompact', {}, COMPACT_MS);
    } catch {
      return { text: 'mcp-compaction: its server is not there yet; nothing was changed. Try it again in a moment.' };
    }
  });

  on('command.run', { command: 'window' }, async ($, e) => {
    await learn($);
    try {
      return await ask($, 'window', { args: e.args, tokens: now.context.tokens }, COMPACT_MS);
    } catch {
      return { text: 'mcp-compaction: its server is not there. /mcp shows why, and starts it again.' };
    }
  });
};
