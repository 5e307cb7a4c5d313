import {
  deviceToken,
  onPush,
  register,
  subscribe,
  unregister,
  unsubscribe,
} from './carillon-web-push.js';

const TOPIC = 'news';
const DATA = { title: 'Hello', message: 'It works.', url: location.href };

const query = new URLSearchParams(location.search);
const api = query.get('api') ?? location.origin;
const app = query.get('app') ?? location.hostname;

/** @param {string} id */
const byId = (id) => document.getElementById(id);

byId('register').addEventListener('click', turnOn);
byId('unregister').addEventListener('click', turnOff);
byId('topic').addEventListener('change', changeTopic);
for (const button of document.querySelectorAll('[data-copy]')) {
  button.addEventListener('click', () => copy(button));
}
if ('serviceWorker' in navigator) onPush(showPush);
// With the permission granted, register without a click.
if (deviceToken() && Notification.permission === 'granted') turnOn();

async function turnOn() {
  byId('register').disabled = true;
  setStatus('Registering …');
  try {
    const isId = /^[0-9a-f]{24}$/.test(app);
    const { token } = await register({ api, ...(isId ? { appId: app } : { app }) });
    byId('token').textContent = token;
    byId('command').textContent = commandFor(token);
    byId('curl').textContent = curlFor(token);
    show(true);
    setStatus('');
  } catch (error) {
    setStatus(`${error.message} ${hintFor(error)}`, true);
  } finally {
    byId('register').disabled = false;
  }
}

async function turnOff() {
  await unregister();
  byId('topic').checked = false;
  show(false);
  setStatus('Turned off.');
}

async function changeTopic() {
  const { checked } = byId('topic');
  await (checked ? subscribe(TOPIC) : unsubscribe(TOPIC)).catch((error) => {
    byId('topic').checked = !checked;
    alert(error.message);
  });
}

/** @param {Error & { code?: string }} error */
function hintFor({ code }) {
  if (code === 'NO_PUSH_SERVICE') {
    return 'With the sandbox, use a Firefox configured as in docs/use/receive/web.md; other browsers need Internet access.';
  }
  return query.has('app')
    ? ''
    : 'Open this page with the URL that npm start prints: it contains the app.';
}

/** @param {string} text */
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** @param {string} token */
function commandFor(token) {
  return `npm run -s carillon -- push send --to ${token} \\
  --data ${quoted(JSON.stringify(DATA))}`;
}

/** @param {string} token */
function curlFor(token) {
  const body = JSON.stringify({ to: token, data: DATA });
  return `curl ${quoted(String(new URL('/push', api)))} \\
  -H "Authorization: Bearer $API_KEY" \\
  -H 'Content-Type: application/json' \\
  -d ${quoted(body)}`;
}

/** @param {Record<string, unknown>} data */
function showPush(data) {
  const item = byId('arrival').content.cloneNode(true);
  item.querySelector('time').textContent = new Date().toLocaleTimeString();
  item.querySelector('strong').textContent = data.title ?? 'Push';
  item.querySelector('p').textContent = data.message ?? '';
  item.querySelector('pre').textContent = JSON.stringify(data, null, 2);
  if (typeof data.image === 'string') {
    const image = item.querySelector('img');
    image.src = data.image;
    image.hidden = false;
  }
  byId('pushes').prepend(item);
  byId('none').hidden = true;
  document.body.classList.remove('rings');
  requestAnimationFrame(() => document.body.classList.add('rings'));
}

/** @param {Element} button */
async function copy(button) {
  const text = byId(button.dataset.copy).textContent;
  await navigator.clipboard.writeText(text);
  button.textContent = 'Copied';
  setTimeout(() => {
    button.textContent = 'Copy';
  }, 1_500);
}

/** @param {boolean} isOn */
function show(isOn) {
  byId('start').hidden = isOn;
  byId('device').hidden = !isOn;
  byId('arrivals').hidden = !isOn;
}

/** @param {string} text */
function setStatus(text, isFault = false) {
  byId('status').textContent = text;
  byId('status').classList.toggle('fault', isFault);
}
