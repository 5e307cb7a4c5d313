import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import { makeServerCertificate } from '../../packages/runtime/src/certificates.ts';
import { codeBlock } from '../support/documents/code-blocks.ts';
import { forStack } from '../support/documents/for-stack.ts';
import { getOutcomes, send, untilOutcome } from '../support/end-to-end/pushes.ts';
import { ROOT } from '../support/first-run/test-home.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { openChromiumWithPush } from '../support/web-push/browsers.ts';
import { type DemoPage, openDemoPage, readNotifications } from '../support/web-push/demo-page.ts';
import {
  CHROMIUM_PUSH_HOST,
  type GooglePushServer,
  startGooglePushServer,
} from '../support/web-push/google.ts';
import { startSite } from '../support/web-push/site.ts';

const run = promisify(execFile);

let google: GooglePushServer;
let stack: Stack;
let browser: Browser;
let page: DemoPage;
beforeAll(async () => {
  google = await startGooglePushServer();
  stack = await startStack({
    env: { WEB_PUSH_HOSTS: `${CHROMIUM_PUSH_HOST}=${google.host}` },
  });
  const pair = await makeServerCertificate(
    sandboxAuthority(stack),
    [CHROMIUM_PUSH_HOST, '127.0.0.1'],
    2,
  );
  browser = await openChromiumWithPush(google.useCertificate(pair));
  page = await openDemoPage(browser, stack.dev);
});
afterAll(async () => {
  await browser?.close();
  await stack?.stop();
  await google?.stop();
});

/** The services trust the certificates that it signs. */
function sandboxAuthority({ home }: Stack): { certificate: string; key: string } {
  const read = (name: string) => readFileSync(join(home, 'sandbox', name), 'utf8');
  return { certificate: read('ca.pem'), key: read('ca-key.pem') };
}

test('a real Chromium shows pushes that were encrypted for it', async () => {
  for (const title of ['One', 'Two', 'Three']) {
    const { id } = await send(stack, page.token, { data: { title } });
    await until(async () => (await page.notifications()).some((one) => one.title === title), {
      what: `a notification ${title}`,
    });
    await untilOutcome(stack, id, [page.token], 'sent');
  }
  expect(google.responseStatuses()).toEqual([201, 201, 201]);
});

test.each(['command', 'curl'])(
  'the %s that the page shows sends it a push, as copied',
  async (id) => {
    const before = google.responseStatuses().length;
    const { PATH, HOME } = process.env;
    const env = { PATH, HOME, CARILLON_HOME: stack.home, API_KEY: stack.dev.apiKey };
    await run('sh', ['-c', await page.text(id)], { cwd: ROOT, env });
    await until(() => google.responseStatuses().length > before, { what: 'the push' });
    await until(async () => (await page.notifications()).some(({ title }) => title === 'Hello'));
  },
);

test('the page of the document registers the browser by a click, and shows a push to its topic', async () => {
  const html = codeBlock('docs/use/receive/web.md', 'Your site');
  const site = await startSite(`<!doctype html><title>News</title>${forStack(html, stack.dev)}`);
  try {
    await browser.defaultBrowserContext().overridePermissions(site.origin, ['notifications']);
    const tab = await browser.newPage();
    await tab.goto(site.origin);
    await tab.click('#bell:not([hidden])');
    const push = { to: '/topics/news', data: { title: 'Rain' } };
    const { id } = await until(async () => {
      const { status, json } = await stack.api<{ id: string }>('POST', '/push', push);
      return status === 200 && json;
    });
    await until(async () => (await readNotifications(tab)).some(({ title }) => title === 'Rain'));
    await until(async () => (await getOutcomes(stack, id)).sent === 1);
    await tab.close();
  } finally {
    await site.stop();
  }
});
