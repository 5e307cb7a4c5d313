// Shows requests to the simulated providers as they arrive.

const SHOWN = 200;
const COUNTS_EVERY_MS = 1_000;
const NAMES = { apns: 'APNs', fcm: 'FCM', 'web-push': 'Web Push' };
const ACKS = { 100: 'shown', 101: 'not decrypted', 102: 'no such subscription' };

const list = document.querySelector('#entries');
const state = document.querySelector('#state');
const empty = document.querySelector('#empty');
let filter = '';

/** Creates an element. Payloads are untrusted, so no HTML is parsed. */
function element(name, className, text) {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

/** Parses JSON whose numbers keep their text, as the payload has them; older browsers round large ones. */
function parseExact(text) {
  return JSON.parse(text, (_key, value, context) =>
    typeof value === 'number' && JSON.rawJSON !== undefined && String(value) !== context.source
      ? JSON.rawJSON(context.source)
      : value,
  );
}

/** Formats a request as the provider got it: its address, its headers, its payload. */
function formatRequest({ to, environment, headers, payload }) {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  if (environment !== undefined) lines.unshift(`environment: ${environment}`);
  return [to, ...lines, '', JSON.stringify(payload, null, 2)].join('\n');
}

function show(entry) {
  const { n, at, channel, to, push, status, detail, acked } = entry;
  const item = document.createElement('li');
  item.dataset.n = n;
  item.dataset.channel = channel;
  item.hidden = filter !== '' && filter !== channel;
  const details = document.createElement('details');
  const summary = document.createElement('summary');
  const isGood = status !== null && status < 300;
  summary.append(
    element('span', `status ${isGood ? 'good' : ''}`, status ?? 'no response'),
    element('span', 'channel', NAMES[channel]),
    element('span', 'to', to),
    element('span', 'acked', ACKS[acked] ?? ''),
    element('time', '', new Date(at).toLocaleTimeString()),
  );
  details.append(summary);
  if (detail !== undefined) details.append(element('p', 'detail', detail));
  details.append(
    element('pre', '', formatRequest(entry)),
    element('p', '', `Push: ${push ?? '-'}`),
  );
  item.append(details);
  list.prepend(item);
  while (list.children.length > SHOWN) list.lastElementChild.remove();
  empty.hidden = true;
}

async function count() {
  const counts = await (await fetch('/counts')).json();
  for (const card of document.querySelectorAll('#counts article')) {
    const { channel } = card.dataset;
    const channelCounts = counts.byChannel[channel];
    card.querySelector('output').textContent = (
      channelCounts?.accepted ?? counts.duplicates
    ).toLocaleString();
    const refused =
      channelCounts === undefined ? 0 : channelCounts.requests - channelCounts.accepted;
    card.querySelector('small').textContent = refused > 0 ? `${refused} not accepted` : '';
  }
}

for (const button of document.querySelectorAll('button[data-filter]')) {
  button.addEventListener('click', () => {
    filter = button.dataset.filter;
    for (const other of document.querySelectorAll('button[data-filter]')) {
      other.setAttribute('aria-pressed', String(other === button));
    }
    for (const item of list.children)
      item.hidden = filter !== '' && filter !== item.dataset.channel;
  });
}

const { last } = await (await fetch('/received?limit=0')).json();
const { received } = parseExact(
  await (await fetch(`/received?after=${Math.max(0, last - SHOWN)}`)).text(),
);
for (const entry of received) show(entry);

const events = new EventSource('/watch');
events.onopen = () => {
  state.textContent = 'live';
  state.className = 'live';
};
events.onerror = () => {
  state.textContent = 'not connected to the sandbox …';
  state.className = '';
};
events.onmessage = ({ data }) => show(parseExact(data));
events.addEventListener('acked', ({ data }) => {
  const { n, acked } = JSON.parse(data);
  const item = list.querySelector(`[data-n="${n}"] .acked`);
  if (item !== null) item.textContent = ACKS[acked] ?? `code ${acked}`;
});

let counting = Promise.resolve();
setInterval(() => {
  counting = counting.then(count).catch(() => undefined);
}, COUNTS_EVERY_MS);
counting = count().catch(() => undefined);
