import axe from 'axe-core';
import type { Browser, BrowserContext, Page } from 'puppeteer-core';

const HEIGHT = 844;

/** Narrow and wide windows, in CSS pixels, by day and by night. */
export const PAGE_VIEWS = [390, 1_280].flatMap((width) =>
  ['light', 'dark'].map((scheme) => ({ width, scheme })),
);

/** Opens a page in such a window. */
export async function openView(
  browser: Browser | BrowserContext,
  url: string,
  { width, scheme }: { width: number; scheme: string },
): Promise<Page> {
  const page = await browser.newPage();
  await page.setViewport({ width, height: HEIGHT });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
  await page.goto(url);
  return page;
}

/** Returns axe-core's violations on a page, a line for each element: the rule and the element. */
export async function findViolations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  return page.evaluate(RUN_AXE) as Promise<string[]>;
}

/** The words of code in a page that are broken over two lines. */
export async function findBrokenNames(page: Page): Promise<string[]> {
  return page.evaluate(FIND_BROKEN_NAMES) as Promise<string[]>;
}

/** By how many pixels a page is wider than its window. */
export async function horizontalOverflow(page: Page): Promise<number> {
  return page.evaluate(OVERHANG) as Promise<number>;
}

// Scripts of the page are texts: they use names of browsers that this code does not have.
const RUN_AXE = `axe.run(document).then(({ violations }) =>
  violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => id + ' at ' + target.join(' '))))`;

const FIND_BROKEN_NAMES = `[...document.querySelectorAll('table code, .code')].flatMap((element) => {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const broken = [];
  while (walker.nextNode()) {
    for (const { 0: word, index } of walker.currentNode.data.matchAll(/[\\w$]+/g)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, index);
      range.setEnd(walker.currentNode, index + word.length);
      const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
      if (lines.size > 1) broken.push(word);
    }
  }
  return broken;
})`;

const OVERHANG = 'document.documentElement.scrollWidth - innerWidth';
