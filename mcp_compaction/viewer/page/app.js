/* The page: asks for facts and shows them. Stored text is only ever set as text, never as markup. */
'use strict';

const data = document.getElementById('data'); // a page that was written to a file has all of it here
const written = data ? JSON.parse(data.textContent) : null;
const given = new URLSearchParams(location.hash.slice(1));
const code = given.get('code'); // opens the page once: others may have read the browser's command line
let token = given.get('token') ?? code ?? '';
if (token) history.replaceState(null, '', location.pathname + location.search); // out of the address bar
const main = document.getElementById('main');
const list = document.getElementById('sessions');
const LIVE_MS = 2000;
const PAGE = 500; // messages that are asked for at once
let chosen = null;
let shown = '';

// Signs that no reader sees are written out, as core/wording.py does.
const seen = (text) => text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu, (sign) => { const code = sign.codePointAt(0); return code < 32 ? String.fromCharCode(0x2400 + code) : `\\u{${code.toString(16)}}`; });

const say = (text) => { document.getElementById('state').textContent = seen(text); };

const make = (tag, given = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== false) element.setAttribute(name, value);
  }
  element.append(...children.map((child) => (typeof child === 'string' ? seen(child) : child))); // texts become text nodes
  return element;
};

const draw = (tag, given) => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(given)) element.setAttribute(name, value);
  return element;
};

const ask = async (path, body) => {
  if (written) return written[path];
  const headers = { authorization: `Bearer ${token}` };
  if (body) headers['content-type'] = 'application/json';
  const answer = await fetch(`api/${path}`, { method: body ? 'POST' : 'GET', headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(answer.status === 401 ? 'The token is missing, or its code was used before: open the page by `mcp-compaction open`.' : await answer.text());
  return answer.json();
};

// As core/wording.py writes them: 812, 6.1k, 148k, 1.05M.
const kilo = (tokens) => (tokens < 1000 ? String(tokens) : tokens >= 999500 ? `${Number((tokens / 1e6).toPrecision(3))}M` : `${(tokens / 1000).toFixed(tokens < 10000 ? 1 : 0)}k`);
const when = (moment) => new Date(moment).toLocaleString('sv', { dateStyle: 'short', timeStyle: 'short' });
const SPANS = [[365 * 24 * 60, 'year'], [30 * 24 * 60, 'month'], [24 * 60, 'day'], [60, 'hour'], [1, 'minute']];
const lasting = (ms) => {
  const minutes = Math.round(ms / 60000);
  const [length, name] = SPANS.find(([length]) => minutes >= length) ?? SPANS.at(-1);
  const many = Math.round(minutes / length);
  return `${many} ${name}${many === 1 ? '' : 's'}`;
};
const refButton = (ref) => make('button', { class: 'ref', onclick: () => jump(ref) }, ref);

const jump = async (ref) => {
  const number = Number(ref.replace(/^m(\d+).*/, '$1'));
  if (!Number.isInteger(number)) return;
  let place = document.getElementById(`m${number}`);
  if (!place) {
    await loadMessages(number - 20, true);
    place = document.getElementById(`m${number}`);
  }
  if (!place) return say(`${ref} is not there any more`);
  for (const other of document.querySelectorAll('.found')) other.classList.remove('found');
  place.classList.add('found');
  await whole(place, number);
  place.scrollIntoView({ block: 'center' });
  place.focus();
};

const whole = async (place, number) => {
  if (place.dataset.whole) return;
  place.dataset.whole = 'yes';
  const told = await ask(`session/${chosen}/message/${number}`);
  if (told) place.querySelector('pre').textContent = seen(told.text);
};

const messageOf = (one) => {
  const place = make('article', { class: 'card', id: `m${one.seq}`, tabindex: '-1' });
  const open = make('button', { class: 'ref', 'aria-label': `show all of ${one.ref}`, onclick: () => whole(place, one.seq) }, one.ref);
  place.append(open, ` ${one.role}`, make('pre', {}, one.text));
  return place;
};

const loadMessages = async (after, isAnew = false) => {
  const place = document.getElementById('messages');
  const page = (await ask(`session/${chosen}/messages/${Math.max(0, after)}`)) ?? [];
  if (isAnew) place.replaceChildren();
  place.append(...page.map(messageOf));
  const more = document.getElementById('more');
  more.hidden = page.length < PAGE || written !== null;
  more.onclick = () => loadMessages(page.at(-1).seq);
};

const PAUSE_MS = 30 * 60000; // at least, and a tenth of the time that is drawn

/** Where each moment stands between 0 and 1, by its time; long pauses are drawn short, and listed. */
const placesOf = (times) => {
  const spans = times.slice(1).map((time, n) => Math.max(0, time - times[n]));
  const pauses = new Set();
  let left = spans.reduce((sum, span) => sum + span, 0);
  for (const [span, n] of spans.map((span, n) => [span, n]).sort(([a], [b]) => b - a)) {
    if (span < PAUSE_MS || span * 10 < left) break;
    pauses.add(n);
    left -= span;
  }
  const short = left > 0 ? Math.min(0.06, 0.5 / Math.max(1, pauses.size)) : 1 / Math.max(1, pauses.size);
  const rest = 1 - short * pauses.size;
  let x = 0;
  const places = [0, ...spans.map((span, n) => (x += pauses.has(n) ? short : left ? (rest * span) / left : 0))];
  return [places, [...pauses].sort((a, b) => a - b).map((n) => ({ from: places[n], to: places[n + 1], ms: spans[n] }))];
};

const write = (svg, x, y, words, anchor = 'start') => {
  const text = draw('text', { x, y, 'text-anchor': anchor });
  text.textContent = words;
  svg.append(text);
};

const chart = (session, wide) => {
  const high = 200;
  const [top, floor] = [30, high - 26];
  const svg = draw('svg', { viewBox: `0 0 ${wide} ${high}`, role: 'img' });
  const points = session.curve;
  const most = Math.max(1, ...points.map(([, tokens]) => tokens));
  svg.setAttribute('aria-label', `The window over time: ${points.length} points, at most ${kilo(most)} tokens, now ${kilo(points.at(-1)[1])}`);
  const [places, pauses] = placesOf(points.map(([at]) => Date.parse(at)));
  const across = (place) => 46 + (wide - 58) * place;
  const down = (tokens) => floor - ((floor - top) * tokens) / most;
  for (const tokens of [0, most / 2, most]) {
    svg.append(draw('line', { class: 'grid', x1: 46, x2: wide - 12, y1: down(tokens), y2: down(tokens) }));
    write(svg, 40, down(tokens) + 4, kilo(Math.round(tokens)), 'end');
  }
  for (const { from, to } of pauses) svg.append(draw('rect', { class: 'pause', x: across(from), width: across(to) - across(from), y: top, height: floor - top }));
  svg.append(draw('polyline', { class: 'curve', points: points.map(([, tokens], n) => `${across(places[n])},${down(tokens)}`).join(' ') }));
  const free = [wide, wide]; // to the left of what stands in two rows: the newest have room first
  for (const [n, [, , ref]] of [...points.entries()].reverse()) {
    if (!ref) continue;
    const isBack = session.receipts.some((one) => one.ref === ref && one.kind !== 'compress');
    const x = across(places[n]);
    svg.append(draw('line', { class: isBack ? 'cut back' : 'cut', x1: x, x2: x, y1: top - 6, y2: floor }));
    const words = isBack ? `↶${ref}` : ref;
    const end = Math.min(x + 2 + 8 * words.length, wide - 4);
    const row = free.findIndex((left) => end <= left);
    if (row < 0) continue;
    write(svg, end, row ? 24 : 11, words, 'end');
    free[row] = end - 8 * words.length - 4;
  }
  const told = pauses.map(({ ms }) => lasting(ms));
  write(svg, 46, high - 8, when(points[0][0]));
  if (wide > 420) write(svg, wide / 2, high - 8, told.length ? `gray: nothing for ${told.length > 3 ? `${told.length} times` : told.join(', ')}` : '', 'middle');
  write(svg, wide - 12, high - 8, when(points.at(-1)[0]), 'end');
  return svg;
};

/** The chart as wide as its place, so that its words are as large as others. */
const chartOf = (session) => {
  const place = make('div');
  new ResizeObserver(([{ contentRect: { width } }]) => place.replaceChildren(chart(session, Math.max(260, Math.round(width))))).observe(place);
  return place;
};

const receiptOf = (one, isNewest) => {
  const most = Math.max(1, ...one.freed.map(([, tokens]) => tokens));
  const bars = one.freed.map(([name, tokens]) => make('li', {}, make('span', {}, name), make('meter', { min: 0, max: most, value: tokens, 'aria-label': name }), make('span', {}, kilo(tokens))));
  const card = make('article', { class: 'card' }, make('strong', {}, one.ref), ` ${one.what}, ${when(one.at)}: ${kilo(one.before)} → ${kilo(one.after)} tokens`, ...(bars.length ? [make('ul', { class: 'freed', 'aria-label': 'freed tokens' }, ...bars)] : []));
  card.append(make('details', {}, make('summary', {}, 'The receipt'), make('pre', {}, one.text)));
  if (isNewest && !written && one.kind === 'compress') card.append(undoButton(one.ref));
  return card;
};

const undoButton = (ref) => {
  const button = make('button', {}, `Undo ${ref}`);
  let isSure = false;
  button.addEventListener('click', async () => {
    if (!isSure) {
      isSure = true;
      button.classList.add('warn');
      button.textContent = `Undo ${ref}? Click again to go back to the window before it`;
      return;
    }
    button.disabled = true;
    try {
      const { text } = await ask(`session/${chosen}/undo`, { ref });
      await show(chosen);
      main.focus(); // the button is gone
      say(text);
    } catch (error) {
      say(error.message);
    }
  });
  return button;
};

const pinOf = (pin) => make('article', { class: 'card' }, make('strong', {}, pin.ref), ` ${pin.kind}, by ${pin.by}, ${pin.scope}, ${when(pin.at)}`, make('pre', {}, pin.text));

const digestOf = (digest) => {
  const card = make('details', { class: 'card' }, make('summary', {}, `${digest.ref}: ${digest.span}, by ${digest.author === 'extractive' ? 'rules' : digest.author}`));
  for (const [name, items] of digest.sections) {
    const lines = items.map((item) => make('li', {}, `${item.text} `, ...item.refs.filter((ref) => /^m\d/.test(ref)).map(refButton)));
    card.append(make('h4', {}, name), make('ul', {}, ...lines));
  }
  return card;
};

const search = () => {
  const found = make('div', { id: 'found' });
  const input = make('input', { type: 'search', placeholder: 'words, names, a day', 'aria-label': 'Search the archive' });
  const form = make('form', {
    role: 'search',
    onsubmit: async (event) => {
      event.preventDefault();
      const hits = (await ask(`session/${chosen}/search`, { words: input.value })) ?? [];
      found.replaceChildren(...hits.map((hit) => make('article', { class: 'card' }, refButton(hit.ref), ` ${hit.role}`, make('pre', {}, hit.text))));
      say(hits.length ? `${hits.length} found` : 'nothing was found');
    },
  }, input);
  return [form, found];
};

const section = (title, ...children) => [make('h3', {}, title), ...(children.length ? children : [make('p', { class: 'soft' }, 'none')])];

const show = async (id, isQuiet = false) => {
  const session = await ask(`session/${id}`);
  const state = JSON.stringify(session);
  if (isQuiet && state === shown) return;
  [chosen, shown] = [id, state];
  for (const button of list.children) button.setAttribute('aria-current', String(button.dataset.id === String(id)));
  const { tokens, window: size, view } = session.fill;
  const isOther = tokens - view > size / 100; // a host shows its own window until it takes our view
  const fills = (isOther ? [[view, 'in our view'], [tokens, 'as the host shows it']] : [[tokens, '']]).map(([held, where]) =>
    make('div', {}, make('p', {}, `${kilo(held)} of ${kilo(size)} tokens${where && ` ${where}`}, ${Math.round((100 * held) / size)} %`), make('meter', { min: 0, max: size, value: held, 'aria-label': `fill ${where}` })));
  main.replaceChildren(
    make('h2', {}, session.title || session.name),
    make('p', { class: 'soft' }, [session.title && session.name, session.project, session.host, session.model, `${session.messages} messages`].filter(Boolean).join(' · ')),
    ...fills,
    ...section('The window over time', ...(session.curve.length ? [chartOf(session)] : [])),
    ...section('Pins in force', ...session.pins.map(pinOf)),
    ...section('Compactions', ...(session.grade ? [make('p', {}, session.grade)] : []), ...session.receipts.map((one, n) => receiptOf(one, n === 0))),
    ...section('Digests', ...session.digests.map(digestOf)),
    ...(written ? [] : section('Search the archive', ...search())),
    ...section('What was said', make('div', { id: 'messages' }), make('button', { id: 'more' }, 'More messages')),
  );
  await loadMessages(0);
  say(written ? 'written to a file' : 'live');
};

const begin = async () => {
  if (code) ({ token } = await ask('token', {}));
  const sessions = await ask('sessions');
  list.replaceChildren(...sessions.map((one) => make('button', { 'data-id': one.id, onclick: () => show(one.id).then(() => main.focus()) },
    make('strong', {}, one.title || one.name), make('br'), make('span', { class: 'soft' }, `${one.title ? `${one.name}, ` : ''}${one.messages} messages, ${when(one.updated)}`))));
  if (!written) list.after(make('button', { onclick: () => showAudit().catch((error) => say(error.message)) }, 'What past compactions lost'));
  if (!sessions.length) {
    main.replaceChildren(make('h2', {}, 'Nothing is recorded yet'), make('p', {}, 'Run `mcp-compaction import` or `mcp-compaction record chat.jsonl`, then load this page again.'));
    return say('');
  }
  const wanted = new URLSearchParams(location.search).get('session');
  await show((sessions.find((one) => String(one.id) === wanted) ?? sessions[0]).id);
  if (!written) setInterval(() => { if (chosen !== null && !document.hidden && !isBusy()) show(chosen, true).catch((error) => say(error.message)); }, LIVE_MS);
};

const showAudit = async () => {
  say('reading the transcripts that hosts keep …');
  const told = await ask('audit');
  [chosen, shown] = [null, ''];
  for (const button of list.children) button.setAttribute('aria-current', 'false');
  const [head, ...rows] = told.table.map((row, n) => make('tr', {}, ...row.map((cell) => make(n ? 'td' : 'th', {}, cell))));
  main.replaceChildren(
    make('h2', {}, told.headline),
    ...(rows.length ? [make('div', { class: 'scroll', tabindex: '0' }, make('table', {}, head, ...rows))] : []),
    ...told.lines.filter(Boolean).map((line) => make('p', {}, line)),
    ...section('How it is counted', ...told.how.map((line) => make('p', { class: 'soft' }, line))),
  );
  say('');
  main.focus();
};

/** Whether somebody reads or types in what a redraw would take away. */
const isBusy = () => main.contains(document.activeElement) && document.activeElement !== main;

begin().catch((error) => say(error.message));
