/**
 * Web Push with Carillon, for pages: asks for permission, subscribes, registers the browser as a device.
 * An ES module without dependencies; `carillon-service-worker.js` goes beside it.
 */

const STORED_AS = 'carillon-web-push';
const SDK = 1;
/** What the service worker tells open pages. */
const PUSH_MESSAGE = 'carillon-push';

/**
 * @typedef {object} RegisterOptions
 * @property {string} api Address of the API, for instance `https://push.example.com`.
 * @property {string} [appId] The app's id. Without it the app is found by `app`.
 * @property {string} [app] A host name of the app; by default the page's own.
 * @property {string | URL} [serviceWorker] Address of the service worker, by default beside this module. Your own
 *   worker will do if it imports ours.
 * @property {string} [scope] Scope of the service worker, by default its folder.
 */

/**
 * @typedef {object} Device
 * @property {string} token The device token: whom a push is sent to.
 * @property {boolean} isNew Whether it was registered just now, and so is subscribed to no topic.
 */

/** What went wrong, by its code: an API error's, or `UNSUPPORTED`, `DENIED`, `UNREACHABLE`, `NOT_REGISTERED`. */
export class WebPushError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   */
  constructor(code, message) {
    super(message);
    this.name = 'WebPushError';
    this.code = code;
  }
}

/** Whether this browser can receive pushes on this page. On iPhones a site must be on the home screen first. */
export function isSupported() {
  return isSecureContext && 'serviceWorker' in navigator && 'PushManager' in window;
}

/**
 * Makes this browser a device of the app, or finds that it is one already. Call it from a click: browsers ask for
 * permission only then. Call it at every visit of somebody who has given it, too: a subscription that the
 * browser has replaced is registered anew.
 *
 * @param {RegisterOptions} options
 * @returns {Promise<Device>}
 * @throws {WebPushError}
 */
export async function register(options) {
  if (!isSupported()) {
    throw new WebPushError('UNSUPPORTED', 'This browser can not receive pushes on this page.');
  }
  if ((await Notification.requestPermission()) !== 'granted') {
    throw new WebPushError('DENIED', 'Notifications are not allowed for this site.');
  }
  /** @type {Record<string, string>} */
  const app = options.appId ? { appId: options.appId } : { app: options.app ?? location.hostname };
  const { publicKey } = await call(options.api, `/web-push/public-key?${new URLSearchParams(app)}`);
  const worker = await startWorker(options);
  const subscription = await subscribeTo(worker.pushManager, publicKey);

  const known = { api: options.api, app: app.appId ?? app.app, endpoint: subscription.endpoint };
  const stored = read();
  const isSame = stored && Object.entries(known).every(([name, value]) => stored[name] === value);
  if (isSame && (await isStillGood(stored))) return { token: stored.token, isNew: false };

  const { keys = {}, endpoint } = subscription.toJSON();
  const { token, auth } = await call(options.api, '/register', {
    ...app,
    platform: 'web',
    sdk: SDK,
    subscription: { endpoint, key: keys.p256dh, auth: keys.auth },
  });
  localStorage.setItem(STORED_AS, JSON.stringify({ ...known, token, auth }));
  return { token, isNew: true };
}

/** The token of this browser; undefined until it is registered. */
export function deviceToken() {
  return read()?.token;
}

/**
 * Subscribes this device to topics.
 *
 * @param {string | string[]} topics at most 100
 * @throws {WebPushError}
 */
export async function subscribe(topics) {
  await changeTopics('/devices/subscribe', topics);
}

/**
 * Unsubscribes this device from topics; `*` means all.
 *
 * @param {string | string[]} topics
 * @throws {WebPushError}
 */
export async function unsubscribe(topics) {
  await changeTopics('/devices/unsubscribe', topics);
}

/** Ends the subscription: the server learns of it with the next push. The permission stays. */
export async function unregister() {
  localStorage.removeItem(STORED_AS);
  for (const worker of await navigator.serviceWorker.getRegistrations()) {
    await (await worker.pushManager.getSubscription())?.unsubscribe();
  }
}

/**
 * Calls a function with the data of each push that arrives while the page is open.
 *
 * @param {(data: Record<string, unknown>) => void} listener
 * @returns {() => void} ends it
 */
export function onPush(listener) {
  /** @param {MessageEvent} event */
  const hear = ({ data }) => {
    if (data?.type === PUSH_MESSAGE) listener(data.data);
  };
  navigator.serviceWorker.addEventListener('message', hear);
  navigator.serviceWorker.startMessages();
  return () => navigator.serviceWorker.removeEventListener('message', hear);
}

/**
 * @param {string} path
 * @param {string | string[]} topics
 */
async function changeTopics(path, topics) {
  const stored = read();
  if (!stored) throw new WebPushError('NOT_REGISTERED', 'Register this browser first.');
  const { api, token, auth } = stored;
  await call(api, path, { token, auth, topics: [topics].flat() });
}

/**
 * @param {RegisterOptions} options
 * @returns {Promise<ServiceWorkerRegistration>} one whose worker runs: there can be no subscription before
 */
async function startWorker({ serviceWorker, scope }) {
  const url = serviceWorker ?? new URL('carillon-service-worker.js', import.meta.url);
  const registration = await navigator.serviceWorker.register(url, scope ? { scope } : {});
  const worker = registration.active ?? registration.waiting ?? registration.installing;
  if (worker && worker.state !== 'activated') {
    await new Promise((resolve, reject) => {
      worker.addEventListener('statechange', () => {
        if (worker.state === 'activated') resolve(undefined);
        if (worker.state === 'redundant') {
          reject(new WebPushError('UNSUPPORTED', 'The service worker could not be installed.'));
        }
      });
    });
  }
  return registration;
}

/**
 * @param {PushManager} manager
 * @param {string} publicKey base64url
 */
async function subscribeTo(manager, publicKey) {
  const existing = await manager.getSubscription();
  if (existing && keyOf(existing) === publicKey) return existing;
  // A browser refuses to subscribe with one key while it is subscribed with another.
  await existing?.unsubscribe();
  return manager.subscribe({ userVisibleOnly: true, applicationServerKey: toBytes(publicKey) });
}

/** @param {PushSubscription} subscription */
function keyOf({ options: { applicationServerKey: key } }) {
  if (!key) return undefined;
  const text = btoa(String.fromCharCode(...new Uint8Array(key)));
  return text.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

/** @param {string} base64url */
function toBytes(base64url) {
  const text = atob(base64url.replaceAll('-', '+').replaceAll('_', '/'));
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/**
 * Whether the server still knows the device. An outage is no refusal: only one that says so is.
 *
 * @param {Record<string, string>} stored
 */
async function isStillGood({ api, token, auth }) {
  try {
    await call(api, '/devices/auth', { token, auth, sdk: SDK });
    return true;
  } catch (error) {
    return !(error instanceof WebPushError) || error.code !== 'INVALID_DEVICE_AUTH';
  }
}

/**
 * @param {string} api
 * @param {string} path
 * @param {object} [body]
 */
async function call(api, path, body) {
  const request = body && {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  };
  const response = await fetch(new URL(path, api), request).catch(() => {
    throw new WebPushError('UNREACHABLE', `${api} can not be reached.`);
  });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    const { code = 'UNREACHABLE', error = `${api} answered ${response.status}.` } = answer;
    throw new WebPushError(code, error);
  }
  return answer;
}

/** @returns {Record<string, string> | undefined} */
function read() {
  return JSON.parse(localStorage.getItem(STORED_AS) ?? 'null') ?? undefined;
}
