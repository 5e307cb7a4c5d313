import type { Browser, Page } from 'puppeteer-core';
import type { Dev } from '../stack/dev-file.ts';
import { until } from '../until.ts';

/** The demonstration page in a browser that has become a device. */
export type DemoPage = Awaited<ReturnType<typeof openDemoPage>>;

/** A notification that the browser shows. */
type ShownNotification = Record<'title' | 'body' | 'tag', string>;

const READY_MS = 30_000;
const TOKEN = '#token:not(:empty)';

/**
 * Opens the page of a stack's sandbox, allows notifications, and turns them on by a click.
 *
 * @throws when the browser isn't registered within 30 s
 */
export async function openDemoPage(browser: Browser, dev: Dev) {
  const url = demoUrl(dev);
  await browser.defaultBrowserContext().overridePermissions(url.origin, ['notifications']);
  const page = await browser.newPage();
  await page.goto(url.href);
  // A subscription that is requested before the browser has reached its push service may be lost.
  await until(() => subscribePage(page), {
    timeoutMs: READY_MS,
    what: 'the browser is registered',
  });
  return {
    token: await readToken(page),
    text: (id: string) => page.$eval(`#${id}`, (element) => element.textContent ?? ''),
    notifications: () => readNotifications(page),
    /** Returns the data of the pushes that the open page got, the newest first. */
    receivedPayloads: async () => {
      const texts = await page.$$eval('#pushes pre', (all) => all.map((one) => one.textContent));
      return texts.map((text) => JSON.parse(text ?? '{}') as Record<string, unknown>);
    },
    call: (name: 'subscribe' | 'unsubscribe', topic: string) =>
      page.evaluate(clientCall(name, topic)),
    /** Ends the subscription behind the page's back, as browsers do now and then. */
    dropSubscription: () => page.evaluate(LOSE_SUBSCRIPTION),
    /** Loads the page again, as on a later visit. Returns its token then. */
    async reopen() {
      await page.reload();
      await page.waitForSelector(TOKEN, { timeout: READY_MS });
      return readToken(page);
    },
  };
}

/** Returns the notifications that a page's service worker shows. */
export function readNotifications(page: Page): Promise<ShownNotification[]> {
  return page.evaluate(READ_NOTIFICATIONS) as Promise<ShownNotification[]>;
}

/** Push needs a secure context, which http is only for the own machine. */
function demoUrl({ sandbox, api, app }: Dev): URL {
  const url = new URL('/demo/', sandbox);
  url.hostname = 'localhost';
  url.search = String(new URLSearchParams({ api, app }));
  return url;
}

async function subscribePage(page: Page): Promise<boolean> {
  if ((await page.$('#register:not(:disabled)')) === null) await page.reload();
  await page.click('#register');
  return page.waitForSelector(TOKEN, { timeout: READY_MS / 3 }).then(
    () => true,
    () => false,
  );
}

function readToken(page: Page): Promise<string> {
  return page.$eval('#token', (element) => element.textContent ?? '');
}

// Scripts of the page are texts: they use names of browsers that this code does not have.
const READ_NOTIFICATIONS = `navigator.serviceWorker.getRegistration()
  .then((registration) => registration.getNotifications())
  .then((shown) => shown.map(({ title, body, tag }) => ({ title, body, tag })))`;

const LOSE_SUBSCRIPTION = `navigator.serviceWorker.getRegistration()
  .then((registration) => registration.pushManager.getSubscription())
  .then((subscription) => subscription.unsubscribe())`;

function clientCall(name: string, topic: string): string {
  return `import(new URL('carillon-web-push.js', location.href).href)
    .then((client) => client[${JSON.stringify(name)}](${JSON.stringify(topic)}))`;
}
