import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Page } from 'puppeteer-core';
import type { TestTenant } from '../support/api/tenants.ts';
import { runCarillonHere } from '../support/carillon.ts';
import { click, readText, waitForText, waitUntilSettled } from '../support/console/browser.ts';
import { type ConsoleFixture, openConsole } from '../support/console/fixture.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { openMongo } from '../support/mongo.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import { registerIphones } from '../support/providers/provider-device-pool.ts';
import { openRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

/** More recipients than a circuit needs to open. */
const IPHONES = 5;
const PROBLEMS = 'section[aria-label=Problems]';
/** A registration of a worker ends 15 s after its last. */
const FROZEN_MS = 60_000;

interface Finding {
  check: string;
  ok: boolean;
  detail: string;
}

let fixture: ConsoleFixture;
let page: Page;
beforeAll(async () => {
  fixture = await openConsole();
  page = fixture.owner;
});
afterAll(() => fixture?.close());

/** Creates a tenant with this name of its app, whose iPhones all get this response of APNs to a push. */
async function createFailing(name: string, reason: string): Promise<TestTenant> {
  const tenant = await fixture.tenant();
  const mongo = await openMongo(fixture.stack.dev);
  await mongo.db
    .collection<{ _id: string }>('apps')
    .updateOne({ _id: tenant.app }, { $set: { name } });
  await mongo.close();
  const iphones = await registerIphones(tenant, IPHONES);
  for (const address of iphones.addresses)
    await fixture.sandbox.scriptPermanently('apns', address, { as: reason });
  await send(tenant, iphones.tokens);
  return tenant;
}

/** Returns the first findings of `carillon doctor`. */
async function askDoctor(): Promise<Finding[]> {
  const { stdout } = await runCarillonHere(fixture.stack.home, ['--json', 'doctor']);
  return (JSON.parse(stdout) as Finding[]).slice(0, 3);
}

async function openOverview(): Promise<void> {
  await page.bringToFront();
  await page.goto(`${fixture.origin}/`);
}

test('nothing is shown while all is well, and the doctor agrees', async () => {
  await openOverview();
  await waitForText(page, 'Live');
  await waitForText(page, 'Figures exist since');
  expect(await page.$(PROBLEMS)).toBeNull();
  expect(await askDoctor()).toEqual([
    { check: 'workers', ok: true, detail: 'each queue with waiting jobs has a worker' },
    { check: 'providers', ok: true, detail: 'none is unavailable for an app' },
    { check: 'refused credentials', ok: true, detail: 'none in the last hour' },
  ]);
});

test.each([
  [
    'Shop',
    'InvalidProviderToken',
    'APNs refuses the credential',
    'Its deliveries wait until you set a credential',
    'Deliveries wait until you set a credential',
    2,
  ],
  [
    'Bank',
    'ServiceUnavailable',
    'APNs is unavailable for the app',
    'Check the status of the provider',
    'Check the status of the provider',
    1,
  ],
])('an app whose provider responds %s %s', async (name, reason, text, advice, inPanel, finding) => {
  const before = Date.now();
  const { app } = await createFailing(name, reason);
  await openOverview();
  await waitForText(page, `${name}: `);
  await click(page, `Credentials of ${name}`, 'link');
  await page.waitForFunction(`location.pathname === '/apps/${app}'`);
  await waitUntilSettled(page);
  const line = await page.$eval(PROBLEMS, ({ textContent }) => textContent);
  for (const one of [text, reason, advice]) expect(line).toContain(one);
  const alert = 'section[aria-label=APNs] [role=alert]';
  await page.waitForSelector(alert);
  const shown = await page.$eval(alert, ({ textContent }) => textContent);
  for (const one of [reason, inPanel]) expect(shown).toContain(one);
  const shownAt = await page.$eval(`${alert} time`, (time) => time.getAttribute('datetime'));
  expect(Date.parse(shownAt ?? '')).toBeGreaterThanOrEqual(before - 1_000);

  const found = (await askDoctor())[finding];
  expect(found).toMatchObject({ ok: false });
  for (const one of [text, name, app, reason, advice, ' Since 20'])
    expect(found?.detail).toContain(one);
});

test('a Redis that is nearly full, and the end of it', async () => {
  const { dev, home } = fixture.stack;
  const redis = await openRedis(dev);
  const setMaxMemory = (bytes: number) => redis.config('SET', 'maxmemory', bytes);
  const [, used] = /^used_memory:(\d+)/m.exec(await redis.info('memory')) ?? [];
  await setMaxMemory(Math.round(Number(used) * 1.1));
  try {
    await openOverview();
    await waitForText(page, '% of maxmemory');
    const line = await page.$eval(PROBLEMS, ({ textContent }) => textContent);
    for (const text of ['Redis uses ', 'Raise maxmemory']) expect(line).toContain(text);
    const { stdout } = await runCarillonHere(home, ['--json', 'doctor']);
    const memory = (JSON.parse(stdout) as Finding[]).find(({ check }) => check === 'redis memory');
    expect(memory).toMatchObject({ ok: false, detail: expect.stringContaining('Raise maxmemory') });
  } finally {
    await setMaxMemory(0);
    redis.disconnect();
  }
  await page.waitForFunction("!document.body.innerText.includes('% of maxmemory')");
});

test('a frozen worker, and the end of it', async () => {
  const device = await newMqttDevice(fixture.stack.dev);
  await device.connect();
  const before = Date.now();
  fixture.stack.kill('delivery-worker', 'SIGSTOP');
  try {
    await send(fixture.stack, device.token, {});
    const findWorkers = async () => {
      const [workers] = await askDoctor();
      return workers?.ok === false && workers;
    };
    const { detail } = await until(findWorkers, {
      timeoutMs: FROZEN_MS,
      what: 'the frozen worker',
    });
    expect(detail).toMatch(
      /^Jobs wait and no worker takes them: send\b.* Since 20.* are not frozen/,
    );
    await openOverview();
    await waitForText(page, 'Jobs wait and no worker takes them: send');
    await waitForText(page, 'run and are not frozen');
    await click(page, 'Show the queues', 'link');
    await page.waitForFunction("location.pathname === '/queues'");
    await page.waitForFunction(HAS_UNSERVED_ROW);
    const [, since = ''] = / Since (\S+)\. /.exec(detail) ?? [];
    expect(Date.parse(since)).toBeGreaterThanOrEqual(before - 1_000);
  } finally {
    fixture.stack.kill('delivery-worker', 'SIGCONT');
  }
  await device.waitFor(1);
  await page.waitForFunction("!document.body.innerText.includes('no worker takes them')");
  expect(await readText(page)).toContain('Takes jobs');
  await device.disconnect();
});

// Scripts of the page are texts: they use names of browsers that this code does not have.
const HAS_UNSERVED_ROW = `[...document.querySelectorAll('tr')].some(
  ({ innerText }) => innerText.startsWith('send') && innerText.includes('None'))`;
