import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import { getDeviceInfo, send, untilOutcome } from '../support/end-to-end/pushes.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { openFirefox } from '../support/web-push/browsers.ts';
import { type DemoPage, openDemoPage } from '../support/web-push/demo-page.ts';

let stack: Stack;
let browser: Browser;
let page: DemoPage;
beforeAll(async () => {
  stack = await startStack();
  browser = await openFirefox(stack.dev.sandbox ?? '');
  page = await openDemoPage(browser, stack.dev);
});
afterAll(async () => {
  await browser?.close();
  await stack?.stop();
});

const shows = (title: string) =>
  until(async () => (await page.notifications()).find((one) => one.title === title), {
    what: `a notification ${title}`,
  });

test('a Firefox is a device of the platform web', async () => {
  expect((await getDeviceInfo(stack, page.token)).device.platform).toBe('web');
});

test('a Firefox shows a push, acknowledges it, and notifies the open page', async () => {
  const data = { title: 'Tea', message: 'is ready', url: '/demo/', n: 1 };
  const { id } = await send(stack, page.token, { data });
  expect(await shows('Tea')).toEqual({ title: 'Tea', body: 'is ready', tag: id });
  await untilOutcome(stack, id, [page.token], 'sent');
  const [request] = await until(async () => {
    const response = await fetch(`${stack.dev.sandbox}/received?channel=web-push`);
    const { received } = (await response.json()) as { received: { acked?: number }[] };
    // 100: delivered, and 101: not decryptable.
    return received.every(({ acked }) => acked !== undefined) && received;
  });
  expect(request).toMatchObject({ status: 201, acked: 100, headers: { urgency: 'high' } });
  expect(await page.receivedPayloads()).toEqual([{ ...data, _pushyId: id }]);
});

test('a Firefox shows only the newest of a collapse key', async () => {
  for (const title of ['1 : 0', '2 : 0', '2 : 1']) {
    await send(stack, page.token, { data: { title }, collapse_key: 'the score' });
    await shows(title);
  }
  const scores = (await page.notifications()).filter(({ tag }) => tag === 'the score');
  expect(scores.map(({ title }) => title)).toEqual(['2 : 1']);
});

test('a Firefox gets pushes to its topics', async () => {
  await page.call('subscribe', 'weather');
  expect((await getDeviceInfo(stack, page.token)).subscriptions).toEqual(['weather']);
  await send(stack, '/topics/weather', { data: { title: 'Rain' } });
  await shows('Rain');
  await page.call('unsubscribe', 'weather');
  expect((await getDeviceInfo(stack, page.token)).subscriptions).toEqual([]);
});

test('a Firefox shows a notification for every payload', async () => {
  await send(stack, page.token, { data: { message: 'only a message' } });
  await shows('only a message');
  await send(stack, page.token, { data: {} });
  await shows('localhost');
});

test('a Firefox is the same device on its next visit', async () => {
  expect(await page.reopen()).toBe(page.token);
});

test('a Firefox that has lost its subscription is a new device, and the old one is flagged', async () => {
  await page.dropSubscription();
  const token = await page.reopen();
  expect(token).not.toBe(page.token);
  const { id } = await send(stack, page.token);
  await untilOutcome(stack, id, [page.token], 'gone');
  expect((await getDeviceInfo(stack, page.token)).presence).toMatchObject({ unsubscribed: true });
  await send(stack, token, { data: { title: 'Here again' } });
  await shows('Here again');
});
