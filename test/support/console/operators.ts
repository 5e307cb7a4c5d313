import type { Browser, Page } from 'puppeteer-core';
import { click, fill, openPage, waitForText } from './browser.ts';

const PASSWORD = 'correct horse battery staple';

/** Redeems a one-time link in its page. Ends on the overview. */
async function redeemLink(page: Page, link: string, name: string): Promise<void> {
  await page.goto(link);
  await fill(page, 'Your name', name);
  await fill(page, 'New password', PASSWORD);
  await fill(page, 'New password again', PASSWORD);
  await click(page, 'Create the operator');
  await waitForText(page, `Overview`);
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
const INVITE = `(async () => {
  const { csrf } = await (await fetch('/api/session')).json();
  const headers = { 'content-type': 'application/json', 'x-csrf-token': csrf };
  const body = JSON.stringify({ role: 'viewer', accounts: 'all' });
  const response = await fetch('/api/operators/invite', { method: 'POST', headers, body });
  return (await response.json()).link;
})()`;
