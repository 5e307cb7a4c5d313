import {
  deviceToken,
  onPush,
  register,
  subscribe,
  unregister,
  unsubscribe,
} from './carillon-web-push.js';

const TOPIC = 'news';

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
// Whoever has said yes before isn't asked again.
if (deviceToken() && Notification.permission === 'granted') turnOn();

async function turnOn() {
  byId('register').disabled = true;
  say('One moment …');
  try {
    const isId = /^[0-9a-f]{24}$/.test(app);
    const { token } = await register({ api, ...(isId ? { appId: app } : { app }) });
    byId('token').textContent = token;
    byId('curl').textContent = curlFor(token);
    show(true);
    say('');
  } catch (error) {
    say(error.message, true);
  } finally {
    byId('register').disabled = false;
  }
}

async function turnOff() {
  await unregister();
  byId('topic').checked = false;
  show(false);
  say('Turned off.');
}

async function changeTopic() {
  const { checked } = byId('topic');
  await (checked ? subscribe(TOPIC) : unsubscribe(TOPIC)).catch((error) => {
    byId('topic').checked = !checked;
    alert(error.message);
  });
}

/** @param {string} token */
function curlFor(token) {
  const push = { to: token, data: { title: 'Hello', message: 'It works.', url: location.href } };
  const body = JSON.stringify(push).replaceAll("'", "'\\''");
  return `curl '${new URL('/push', api)}' \\
  -H "Authorization: Bearer $API_KEY" \\
  -H 'Content-Type: application/json' \\
  -d '${body}'`;
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
function say(text, isFault = false) {
  byId('status').textContent = text;
  byId('status').classList.toggle('fault', isFault);
}
