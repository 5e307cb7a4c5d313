import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { HTTPRequest, Page } from 'puppeteer-core';
import { runCarillon } from '../support/carillon.ts';
import {
  click,
  logIn,
  openPage,
  openViewer,
  waitForText,
  waitUntilSettled,
} from '../support/console/browser.ts';
import { type ConsoleFixture, openConsole } from '../support/console/fixture.ts';
import {
  ALL_PATHS,
  fillPath,
  OBJECT_PATHS,
  type PageIds,
  SESSION_PATHS,
  visit,
} from '../support/console/pages.ts';
import { type PageWatch, watchPage } from '../support/console/watch-page.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { until } from '../support/until.ts';

/** A text of each page that shows an app without anything, and of one with data. */
const TEXTS: Record<string, { empty?: string; full: string }> = {
  '/login': { full: 'A lost password' },
  '/setup': { full: 'This link does not work' },
  '/': { empty: 'No connected device has sent a receipt', full: 'Figures exist since' },
  '/apps': { full: 'Keys and settings' },
  '/apps/$app': { full: 'Create a key' },
  '/apps/$app?tab=credentials': { full: 'Send a test push' },
  '/apps/$app?tab=webhooks': { empty: 'No webhooks yet', full: 'receiver.example' },
  '/apps/$app?tab=settings': { full: 'Registration of devices' },
  '/apps/$app/pushes': { empty: 'No pushes here', full: 'Outcomes' },
  '/apps/$app/compose': { full: 'Payload' },
  '/apps/$app/failures': { empty: 'No failed deliveries here', full: 'BadCollapseId' },
  '/apps/$app/devices': { empty: 'No devices yet', full: 'electron' },
  '/apps/$app/topics': { empty: 'No topics yet', full: 'news' },
  '/apps/$app/topics/$topic': { empty: 'No subscribers', full: 'electron' },
  '/pushes/$push': { full: 'Time line' },
  '/devices/$token': { full: 'Pending pushes' },
  '/accounts': { full: 'Request' },
  '/queues': { full: 'deliver-web-push' },
  '/operators': { full: 'Invite an operator' },
  '/audit': { full: 'setup' },
  '/password': { full: 'New password' },
};
/** A text for viewers of each page whose text above is of a button that they have not. */
const TEXTS_OF_VIEWERS: Record<string, string> = {
  '/apps/$app': 'A backend sends pushes',
  '/apps/$app?tab=credentials': 'APNs',
};
const OF_ADMINS = ['/operators', '/audit'];
const EMPTY_PATHS = ALL_PATHS.filter((path) => TEXTS[path]?.empty !== undefined);
const FILTERED = '/apps/$app/failures?channel=apns&reason=rejected-by-provider';
const PUSHES_PER_PAGE = 50;
const NO_SUCH_ID = 'f'.repeat(24);

let fixture: ConsoleFixture;
let origin: string;
let ids: PageIds;
beforeAll(async () => {
  fixture = await openConsole();
  origin = fixture.origin;
});
afterAll(() => fixture?.close());

function textOf(path: string, state: 'empty' | 'full'): string {
  return TEXTS[path]?.[state] ?? 'no text';
}

async function showsText(page: Page, path: string, text: string, someIds = ids): Promise<void> {
  await visit(page, origin, path, someIds);
  await waitForText(page, text);
}

/** Returns the ids of the pushes in a list, as its links have them. */
async function readIds(page: Page): Promise<string[]> {
  return page.$$eval('td a[href^="/pushes/"]', (found) =>
    found.map((link) => link.getAttribute('href') ?? ''),
  );
}

test('each page of the router has its texts here', () => {
  expect(Object.keys(TEXTS).toSorted()).toEqual(ALL_PATHS.toSorted());
});

describe('without anything', () => {
  let watch: PageWatch;
  beforeAll(() => {
    watch = watchPage(fixture.owner, origin);
    ids = { app: fixture.stack.dev.app, push: '', token: '', topic: 'none' };
  });

  test.each(EMPTY_PATHS)('%s explains what belongs there', async (path) => {
    await showsText(fixture.owner, path, textOf(path, 'empty'));
    expect(watch.take()).toEqual([]);
  });
});

describe('with data', () => {
  let watch: PageWatch;
  beforeAll(async () => {
    ({ ids } = await fixture.fill());
    watch = watchPage(fixture.owner, origin);
  });

  test.each(ALL_PATHS)('%s shows them', async (path) => {
    await showsText(fixture.owner, path, textOf(path, 'full'));
    expect(watch.take()).toEqual([]);
  });

  test('a list leads to the next page and back, also after it is loaded anew', async () => {
    const { tenant, ids: others } = await fixture.fill();
    for (let n = 0; n < PUSHES_PER_PAGE; n += 1) await send(tenant, [others.token]);
    const page = fixture.owner;
    await visit(page, origin, '/apps/$app/pushes', others);
    const first = await readIds(page);
    await click(page, 'Next page');
    await page.waitForFunction("location.search.includes('cursor=')");
    await page.reload();
    await waitUntilSettled(page);
    const second = await readIds(page);
    expect(first).toHaveLength(PUSHES_PER_PAGE);
    expect(second.filter((id) => first.includes(id))).toEqual([]);
    await click(page, 'Previous page');
    await page.waitForFunction("location.search === ''");
    // The old items stay until the new ones are there.
    await page.waitForSelector(`td a[href="${first[0]}"]`);
    expect(await readIds(page)).toEqual(first);
    expect(watch.take()).toEqual([]);
  });

  test('the push list tells its rows apart, on a phone too, and its filters are in the URL', async () => {
    const { tenant, ids: others } = await fixture.fill();
    const data = { title: 'Fresh rolls' };
    await tenant.api('POST', '/push', { to: others.token, data });
    const page = await fixture.owner.browserContext().newPage();
    const ofPage = watchPage(page, origin);
    await page.setViewport({ width: 390, height: 844 });
    await visit(page, origin, '/apps/$app/pushes', others);
    for (const text of ['Fresh rolls', `Key …${tenant.apiKey.slice(-4)}`, '1 of 2, 1 failed'])
      await waitForText(page, text);
    const rightEdges = await page.$$eval('tbody tr [role=img]', (bars) =>
      bars.map((bar) => bar.getBoundingClientRect().right),
    );
    expect(rightEdges).toHaveLength(4);
    expect(Math.max(...rightEdges)).toBeLessThan(390);
    await page.locator('::-p-aria([name="Topic"][role="textbox"])').fill(others.topic);
    await page.keyboard.press('Enter');
    await page.waitForFunction("location.search === '?topic=news'");
    await page.waitForFunction("document.querySelectorAll('tbody tr').length === 1");
    for (const [filter, count] of [
      ['outcome=failed', 1],
      [`token=${others.token}`, 4],
      ['token=nobody', 0],
    ] as const) {
      await page.goto(`${origin}${fillPath('/apps/$app/pushes', others)}?${filter}`);
      await waitUntilSettled(page);
      expect([filter, await readIds(page)]).toMatchObject([filter, { length: count }]);
    }
    expect(ofPage.take()).toEqual([]);
    await page.close();
  });

  test('a push lists its recipients, of one outcome if that is selected, with links to the devices', async () => {
    const page = await fixture.owner.browserContext().newPage();
    const ofPage = watchPage(page, origin);
    await visit(page, origin, '/pushes/$push', ids);
    const list = 'section[aria-label="Recipients"]';
    const untilListed = (count: number) =>
      page.waitForFunction(`document.querySelectorAll('${list} tbody tr').length === ${count}`);
    await untilListed(2);
    await page.locator(`${list} select`).fill('failed');
    await page.waitForFunction("location.search === '?outcome=failed'");
    await untilListed(1);
    const row = await page.$eval(`${list} tbody tr`, (found) => found.textContent);
    expect(row).toMatch(/Failed.*APNs.*BadCollapseId/);
    await page.locator(`${list} td a`).click();
    await page.waitForFunction("location.pathname.startsWith('/devices/')");
    await waitForText(page, 'Pending pushes');
    expect(ofPage.take()).toEqual([]);
    await page.close();
  });

  test('the range of the overview is in the URL', async () => {
    const page = fixture.owner;
    await page.goto(`${origin}/?range=15m`);
    await waitUntilSettled(page);
    const select = 'select[aria-label="Time range"]';
    expect(await page.$eval(select, (element) => (element as { value: string }).value)).toBe('15m');
    await page.select(select, '30m');
    await page.waitForFunction("location.search === '?range=30m'");
    await page.select(select, '1h');
    await page.waitForFunction("location.search === ''");
    expect(watch.take()).toEqual([]);
  });

  test.each(['', 'queue/maintenance', 'job-schedulers'])(
    'Bull Board shows /%s, and loads nothing from other hosts',
    async (path) => {
      const page = await fixture.owner.browserContext().newPage();
      const ofPage = watchPage(page, origin);
      await page.goto(`${origin}/queues/board/${path}`);
      await waitForText(page, 'maintenance');
      await page.waitForNetworkIdle({ idleTime: 500 });
      expect(ofPage.take()).toEqual([]);
      await page.close();
    },
  );

  test('an action that Bull Board may not do is refused with the text of the console', async () => {
    const page = await fixture.owner.browserContext().newPage();
    await page.goto(`${origin}/queues/board/queue/maintenance`);
    await waitForText(page, 'maintenance');
    const response = await page.evaluate(`new Promise((resolve) => {
      const request = new XMLHttpRequest();
      request.open('PUT', '/queues/board/api/queues/maintenance/pause');
      request.onload = () => resolve(request.responseText);
      request.send();
    })`);
    expect(JSON.parse(String(response)).error).toContain('Only retry and promote are allowed');
    await page.close();
  });

  test('the doctor finds the console ready', async () => {
    const { stdout } = await runCarillon(fixture.stack.home, ['--json', 'doctor']);
    const findings = JSON.parse(stdout) as { check: string; ok: boolean }[];
    const ofConsole = findings.filter(({ check }) => check.startsWith('console'));
    expect(ofConsole).toMatchObject([
      { check: 'console', ok: true },
      { check: 'console pages', ok: true },
    ]);
  });

  test('the Content-Security-Policy is in force', async () => {
    const page = await openPage(fixture.browser);
    await page.goto(`${origin}/login`);
    await page.evaluate(`{
      const script = document.createElement('script');
      script.textContent = 'globalThis.inlineScriptRan = true';
      document.head.append(script);
    }`);
    expect(await page.evaluate('globalThis.inlineScriptRan')).toBeUndefined();
    await page.close();
  });
});

describe('an id that does not exist', () => {
  const others = { app: NO_SUCH_ID, push: NO_SUCH_ID, token: 'f'.repeat(22), topic: 'none' };

  test.each(OBJECT_PATHS)('%s reports it', async (path) => {
    const page = await fixture.owner.browserContext().newPage();
    const watch = watchPage(page, origin, [404]);
    await showsText(page, path, 'Not found', others);
    expect(watch.take()).toEqual([]);
    await page.close();
  });
});

describe('as a viewer', () => {
  let viewer: Page;
  let watch: PageWatch;
  beforeAll(async () => {
    viewer = await openViewer(fixture.browser, fixture.owner);
    watch = watchPage(viewer, origin, [403]);
  });

  test.each(SESSION_PATHS)('%s shows what a viewer may see', async (path) => {
    const isForbidden = OF_ADMINS.includes(path);
    const text = isForbidden ? 'Your role does not allow this' : textOf(path, 'full');
    await showsText(viewer, path, TEXTS_OF_VIEWERS[path] ?? text);
    expect(watch.take()).toEqual([]);
  });

  test('a viewer who sends is refused by the server', async () => {
    await visit(viewer, origin, '/apps/$app/compose', ids);
    await viewer.locator('textarea').fill(ids.token);
    await click(viewer, 'Send');
    await waitForText(viewer, 'Your role does not allow this');
    expect(watch.take()).toEqual([]);
  });

  test.each([...SESSION_PATHS, FILTERED])('%s is shown again after a login', async (path) => {
    const address = fillPath(path, ids);
    const page = await viewer.browserContext().newPage();
    const ofPage = watchPage(page, origin, [401, 403]);
    await viewer.deleteCookie(...(await viewer.cookies()));
    await page.goto(`${origin}${address}`);
    await waitForText(page, 'Log in to Carillon');
    await logIn(page, 'Vera');
    await page.waitForFunction(`location.pathname + location.search === '${address}'`);
    expect(ofPage.take()).toEqual([]);
    await page.close();
  });

  test('a session that ends while a page is open leads to the login', async () => {
    await visit(viewer, origin, '/apps/$app/devices', ids);
    await viewer.deleteCookie(...(await viewer.cookies()));
    await click(viewer, 'Failed deliveries', 'link');
    await waitForText(viewer, 'Log in to Carillon');
    await logIn(viewer, 'Vera');
    await waitForText(viewer, 'BadCollapseId');
  });
});

/** Requests of a page for its data; not for the session, without which there is no page. */
function isForData(request: HTTPRequest): boolean {
  const { pathname } = new URL(request.url());
  return pathname.startsWith('/api/') && pathname !== '/api/session';
}

const FAULTS = {
  'a server that does not respond': {
    text: 'No connection',
    apply: (request: HTTPRequest) => request.abort('connectionrefused'),
  },
  'a server that fails': {
    text: 'The request has failed',
    apply: (request: HTTPRequest) =>
      request.respond({
        status: 500,
        contentType: 'application/json',
        headers: { 'content-security-policy': "default-src 'self'" },
        body: JSON.stringify({ code: 'INTERNAL', error: 'Failed.', requestId: 'request-1' }),
      }),
  },
};
/** They request nothing before they are used. */
const WITHOUT_DATA = ['/password'];
const BEFORE_LOGIN = ['/login', '/setup'];

describe.each(Object.entries(FAULTS))('%s', (_name, { text, apply }) => {
  const paths = ALL_PATHS.filter((path) => !WITHOUT_DATA.includes(path));

  test.each(paths)('%s shows an error and can be tried again', async (path) => {
    const page = await fixture.owner.browserContext().newPage();
    const watch = watchPage(page, origin, [500]);
    let isFaulty = true;
    await page.setRequestInterception(true);
    page.on('request', (request) => {
      void (isFaulty && isForData(request) ? apply(request) : request.continue());
    });
    await page.goto(`${origin}${fillPath(path, ids)}`);
    await waitForText(page, text);
    isFaulty = false;
    // A part that has its data may move the button of another.
    const pressNext = async () => {
      const button = await page.$('::-p-aria([name="Try again"][role="button"])');
      await button?.click();
      return button === null;
    };
    await until(pressNext, { everyMs: 250 });
    await waitForText(page, textOf(path, 'full'));
    expect(watch.take()).toEqual([]);
    await page.close();
  });
});

describe('with more apps than a list holds', () => {
  test('an app is found by its name', async () => {
    const { store } = fixture;
    const account = (await store.apps.find(ids.app))?.account ?? '';
    const name = 'the shop of a tenant';
    for (let count = 0; count < 110; count += 1) await store.apps.create(`app ${count}`, account);
    const app = await store.apps.create(name, account);
    const page = await fixture.owner.browserContext().newPage();
    const watch = watchPage(page, origin);
    await visit(page, origin, '/apps/$app/devices', ids);
    await page.locator('input[aria-label="App"]').click();
    await page.keyboard.type('of a tenant');
    await waitForText(page, name);
    await page.locator('::-p-aria([role="option"])').click();
    await page.waitForFunction(`location.pathname === '/apps/${app}/devices'`);
    await waitForText(page, 'No devices yet');
    expect(watch.take()).toEqual([]);
    await page.close();
  });
});

describe('a slow server', () => {
  // The pages before a login are centred, and the overview may have its data from the event stream first.
  const paths = ALL_PATHS.filter((path) => ![...WITHOUT_DATA, ...BEFORE_LOGIN, '/'].includes(path));

  test.each(paths)('%s shows that it loads, and then its data at the same place', async (path) => {
    const page = await fixture.owner.browserContext().newPage();
    const watch = watchPage(page, origin);
    const held: HTTPRequest[] = [];
    let isSlow = true;
    await page.setRequestInterception(true);
    page.on('request', (request) => {
      if (isSlow && isForData(request)) held.push(request);
      else void request.continue();
    });
    await page.goto(`${origin}${fillPath(path, ids)}`, { waitUntil: 'domcontentloaded' });
    await page.waitForSelector('h1');
    const loading = '[role=status][aria-label="Loading"]';
    await page.waitForSelector(loading);
    expect(await measure(page, loading, 'height')).toBeGreaterThan(40);
    const before = await measure(page, 'h1', 'top');
    isSlow = false;
    for (const request of held) await request.continue();
    await waitForText(page, textOf(path, 'full'));
    expect(await measure(page, 'h1', 'top')).toBe(before);
    expect(watch.take()).toEqual([]);
    await page.close();
  });
});

/** Returns the height of an element, or its distance from the top, in pixels. */
function measure(page: Page, selector: string, side: 'height' | 'top'): Promise<unknown> {
  return page.evaluate(`document.querySelector('${selector}').getBoundingClientRect().${side}`);
}

// Jest runs the tests outside of groups first, and this one has to be the last.
describe('a console that is killed', () => {
  test('is live again by itself, and reports that it was not', async () => {
    await visit(fixture.owner, origin, '/', ids);
    await waitForText(fixture.owner, 'Live');
    const pid = fixture.stack.kill('dashboard', 'SIGKILL');
    await waitForText(fixture.owner, 'Not live since');
    await waitForText(fixture.owner, 'Live data stopped');
    await fixture.stack.waitForRestart('dashboard', pid);
    await fixture.owner.waitForFunction("!document.body.innerText.includes('Not live since')");
    await fixture.owner.waitForFunction("!document.body.innerText.includes('Live data stopped')");
    await waitForText(fixture.owner, 'Live');
  });
});
