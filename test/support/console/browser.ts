import type { Browser, Page } from 'puppeteer-core';

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

/** Waits until a page shows a text. @throws with the page's text when it does not within 20 s */
export async function waitForText(page: Page, text: string): Promise<void> {
  const shown = `document.body.innerText.includes(${JSON.stringify(text)})`;
  await page.waitForFunction(shown, { timeout: 20_000 }).catch(async (cause) => {
    const found = `${page.url()}:\n${await readText(page)}`;
    throw new Error(`no "${text}" at ${found}`, { cause });
  });
}

/** Waits until the page of a push shows these recipients by outcome, such as `Delivered 1`. */
export async function waitForOutcomes(page: Page, outcomes: string): Promise<void> {
  await page.waitForSelector(`[role=img][aria-label="${outcomes}"]`, { timeout: 20_000 });
}

/** Returns the text that a page shows. */
export async function readText(page: Page): Promise<string> {
  return (await page.evaluate('document.body.innerText')) as string;
}

/** Waits until a page has its heading, and all data that it requested. */
export async function waitUntilSettled(page: Page): Promise<void> {
  await page.waitForFunction(SETTLED, { timeout: 20_000 });
}

const SETTLED = `document.querySelector('h1') !== null &&
  document.querySelector('[aria-label="Loading"], .mantine-Skeleton-root[data-visible]') === null`;
