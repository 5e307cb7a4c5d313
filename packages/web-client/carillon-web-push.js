/**
 * Web Push client for pages: requests the permission, subscribes, and registers the browser as a device.
 * An ES module without dependencies. Serve `carillon-service-worker.js` from the same folder.
 */

const STORED_AS = 'carillon-web-push';
const SDK = 1;
/** Type of the service worker's messages to open pages. */
const PUSH_MESSAGE = 'carillon-push';
/** Deadline of a subscription: browsers retry forever without an error. */
const SUBSCRIBE_MS = 20_000;

/**
 * @typedef {object} RegisterOptions
 * @property {string} api URL of the API, for example `https://push.example.com`.
 * @property {string} [appId] The app's id. Without it the app is found by `app`.
 * @property {string} [app] A host name of the app; by default the host of the page.
 * @property {string | URL} [serviceWorker] URL of the service worker, by default in the folder of this module. You can
 *   use your own worker if it imports this one.
 * @property {string} [scope] Scope of the service worker, by default its folder.
 */

/**
 * @typedef {object} Device
 * @property {string} token The device token, the address of pushes.
 * @property {boolean} isNew True: it was registered by this call and has no topic subscriptions.
 */

/**
 * Error with a code: that of an API error, or `UNSUPPORTED`, `DENIED`, `UNREACHABLE`, `NO_PUSH_SERVICE`,
 * `NOT_REGISTERED`.
 */
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

/** Checks whether this browser can receive pushes on this page. On iOS the site must be on the home screen. */
export function isSupported() {
  return isSecureContext && 'serviceWorker' in navigator && 'PushManager' in window;
}

/**
 * Registers this browser as a device of the app, unless it is registered. Call it from a click handler: browsers show
 * the permission prompt only then. Once the permission is granted, call it at every visit too: it registers a
 * subscription that the browser has replaced.
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

/** Returns the device token of this browser; undefined until it is registered. */
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

/** Ends the subscription. The server notices at the next push. The permission stays granted. */
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
 * @returns {() => void} removes the listener
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
 * @returns {Promise<ServiceWorkerRegistration>} with an active worker, which a subscription requires
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
  // A browser can't subscribe with a key while it is subscribed with another one.
  await existing?.unsubscribe();
  const options = { userVisibleOnly: true, applicationServerKey: toBytes(publicKey) };
  return withDeadline(manager.subscribe(options));
}

/**
 * @param {Promise<PushSubscription>} subscribing a late result is found by the next call of `register`
 * @returns {Promise<PushSubscription>}
 */
async function withDeadline(subscribing) {
  const unreachable = () =>
    new WebPushError('NO_PUSH_SERVICE', "This browser's push service can not be reached.");
  let timer;
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(unreachable()), SUBSCRIBE_MS);
  });
  try {
    return await Promise.race([subscribing, late]);
  } catch (error) {
    // The Push API's error for a push service that is unreachable or rejects the subscription.
    throw error.name === 'AbortError' ? unreachable() : error;
  } finally {
    clearTimeout(timer);
  }
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
 * Checks whether the server still knows the device. Only an explicit rejection counts, not an outage.
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
  const result = await response.json().catch(() => ({}));
  if (!response.ok) {
    const { code = 'UNREACHABLE', error = `${api} responded with status ${response.status}.` } =
      result;
    throw new WebPushError(code, error);
  }
  return result;
}

/** @returns {Record<string, string> | undefined} */
function read() {
  return JSON.parse(localStorage.getItem(STORED_AS) ?? 'null') ?? undefined;
}
