/**
 * Shows pushes as notifications. Serve it from your own origin, beside `carillon-web-push.js`; or call
 * `importScripts('carillon-service-worker.js')` in a worker that you have already.
 *
 * Of a push's data it shows `title`, `message` and `image`, and opens `url` when the notification is clicked.
 */

/** What open pages are told. */
const PUSH_MESSAGE = 'carillon-push';

self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
self.addEventListener('push', (event) => event.waitUntil(receive(event.data)));
self.addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data.url));
});
self.addEventListener('pushsubscriptionchange', (event) => event.waitUntil(renew(event)));

/**
 * Browsers take the subscription away from who receives without showing anything, so something is shown always.
 *
 * @param {PushMessageData | null} message
 */
async function receive(message) {
  const data = readObject(message);
  const pages = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
  for (const page of pages) page.postMessage({ type: PUSH_MESSAGE, data });
  const { title, message: body, image, url } = data;
  // A newer one with the same key takes the older one's place; a push that comes twice its own.
  const tag = data._pushyCollapseKey ?? data._pushyId;
  await self.registration.showNotification(textOf(title) ?? textOf(body) ?? location.hostname, {
    ...(title && body && { body: textOf(body) }),
    ...(image && { image: textOf(image) }),
    ...(tag && { tag }),
    data: { url: textOf(url) },
  });
}

/** @param {PushMessageData | null} message */
function readObject(message) {
  try {
    const value = message?.json();
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}

/** @param {unknown} value */
function textOf(value) {
  return value === undefined || value === null || value === '' ? undefined : String(value);
}

/** @param {string | undefined} url */
async function open(url) {
  const target = new URL(url ?? self.registration.scope, self.registration.scope);
  if (!['http:', 'https:'].includes(target.protocol)) return;
  const pages = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
  const there = pages.find((page) => page.url === target.href);
  await (there ? there.focus() : self.clients.openWindow(target.href));
}

/**
 * The browser has replaced the subscription. The page registers the new one at its next visit; until then nothing
 * arrives, for only the page knows the device's credentials.
 *
 * @param {PushSubscriptionChangeEvent} event
 */
async function renew({ oldSubscription, newSubscription }) {
  if (newSubscription || !oldSubscription) return;
  const { userVisibleOnly, applicationServerKey } = oldSubscription.options;
  await self.registration.pushManager.subscribe({ userVisibleOnly, applicationServerKey });
}
