/**
 * Shows pushes as notifications. Serve it from your own origin, in the folder of `carillon-web-push.js`; or call
 * `importScripts('carillon-service-worker.js')` in your own worker.
 *
 * It shows `title`, `message` and `image` of a push's data, and opens `url` when the notification is clicked.
 */

/** Type of the messages to open pages. */
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
 * Handles a push. Always shows a notification: browsers end the subscription of a worker that does not.
 *
 * @param {PushMessageData | null} message
 */
async function receive(message) {
  const data = readObject(message);
  const pages = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
  for (const page of pages) page.postMessage({ type: PUSH_MESSAGE, data });
  const { title, message: body, image, url } = data;
  // A newer notification with the same collapse key replaces the older one; a duplicate replaces itself.
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
 * Renews an expired subscription. The page registers the new one at the next visit; no push arrives until then,
 * because only the page has the device's credentials.
 *
 * @param {PushSubscriptionChangeEvent} event
 */
async function renew({ oldSubscription, newSubscription }) {
  if (newSubscription || !oldSubscription) return;
  const { userVisibleOnly, applicationServerKey } = oldSubscription.options;
  await self.registration.pushManager.subscribe({ userVisibleOnly, applicationServerKey });
}
