import type { Browser, Page } from 'puppeteer-core';

const PASSWORD = 'correct horse battery staple';
/** Ends a wait that would hang. */
const GUARD_MS = 50_000;
const WINDOW = { width: 1_280, height: 800 };

/** Opens a page that shares no cookies with others. */
export async function openPage(browser: Browser): Promise<Page> {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  await page.setViewport(WINDOW);
  return page;
}

/** Fills a text field, found by its label. */
export async function fill(page: Page, label: string, text: string): Promise<void> {
  await page.locator(`::-p-aria([name="${label}"][role="textbox"])`).fill(text);
}

/** Clicks a button or a link, found by its name. */
export async function click(page: Page, name: string, role = 'button'): Promise<void> {
  await page.locator(`::-p-aria([name="${name}"][role="${role}"])`).click();
}

/** Waits until a page shows a text. @throws with the page's text if it never does */
export async function waitForText(page: Page, text: string): Promise<void> {
  const shown = `document.body.innerText.includes(${JSON.stringify(text)})`;
  await page.waitForFunction(shown, { timeout: GUARD_MS }).catch(async (cause) => {
    const found = `${page.url()}:\n${await readText(page)}`;
    throw new Error(`no "${text}" at ${found}`, { cause });
  });
}

/** Waits until the page of a push shows these recipients by outcome, such as `Delivered 1`. */
export async function waitForOutcomes(page: Page, outcomes: string): Promise<void> {
  await page.waitForSelector(`[role=img][aria-label="${outcomes}"]`, { timeout: GUARD_MS });
}

/** Returns the text that a page shows. */
export async function readText(page: Page): Promise<string> {
  return (await page.evaluate('document.body.innerText')) as string;
}

/** Waits until a page has its heading, and all data that it requested. */
export async function waitUntilSettled(page: Page): Promise<void> {
  await page.waitForFunction(SETTLED, { timeout: GUARD_MS });
}

/** Redeems a one-time link in its page. Ends on the overview. */
async function redeemLink(page: Page, link: string, name: string): Promise<void> {
  await page.goto(link);
  await fill(page, 'Your name', name);
  await fill(page, 'New password', PASSWORD);
  await fill(page, 'New password again', PASSWORD);
  await click(page, 'Create the operator');
  await waitForText(page, 'Overview');
}

/** Logs an operator in on the page of the login, which the page shows. */
export async function logIn(page: Page, name: string): Promise<void> {
  await fill(page, 'Name', name);
  await fill(page, 'Password', PASSWORD);
  await click(page, 'Log in');
}

/** Opens a browser of the first operator, by the set-up link of a stack. */
export async function openOwner(browser: Browser, link: string | undefined): Promise<Page> {
  if (link === undefined) throw new Error('the stack has no set-up link');
  const page = await openPage(browser);
  await redeemLink(page, link, 'Olga');
  return page;
}

/** Opens a browser of a new viewer that an owner has invited. */
export async function openViewer(browser: Browser, owner: Page): Promise<Page> {
  const link = (await owner.evaluate(INVITE)) as string;
  const page = await openPage(browser);
  await redeemLink(page, new URL(link, owner.url()).href, 'Vera');
  return page;
}

// Scripts of the page are texts: they use names of browsers that this code does not have.
const SETTLED = `document.querySelector('h1') !== null &&
  document.querySelector('[aria-label="Loading"], .mantine-Skeleton-root[data-visible]') === null`;

const INVITE = `(async () => {
  const { csrf } = await (await fetch('/api/session')).json();
  const headers = { 'content-type': 'application/json', 'x-csrf-token': csrf };
  const body = JSON.stringify({ role: 'viewer', accounts: 'all' });
  const response = await fetch('/api/operators/invite', { method: 'POST', headers, body });
  return (await response.json()).link;
})()`;
