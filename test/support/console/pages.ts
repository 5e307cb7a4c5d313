import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Page } from 'puppeteer-core';
import { waitUntilSettled } from './browser.ts';

const SOURCES = new URL('../../../services/dashboard/web/src/', import.meta.url);

/** Finds what a pattern's group matches in a file of the pages. */
function findAll(file: string, pattern: RegExp): string[] {
  const text = readFileSync(fileURLToPath(new URL(file, SOURCES)), 'utf8');
  return [...text.matchAll(pattern)].map(([, found = '']) => found);
}

/** Ids in the addresses of pages. */
export interface PageIds {
  app: string;
  push: string;
  token: string;
  topic: string;
}

/** The tabs of an app's page; its path alone opens the first one. */
const [, ...APP_TABS] = findAll('pages/app-page.tsx', /<Tabs\.Tab value="(\w+)"/g);

/** The paths of all pages of the console, from the file of its router, and of the tabs of an app's page. */
export const ALL_PATHS = [
  ...findAll('router.tsx', /\bpath: '([^']+)'/g),
  ...APP_TABS.map((tab) => `/apps/$app?tab=${tab}`),
];

const OPEN_PATHS = ['/login', '/setup'];

/** Those that need a session. */
export const SESSION_PATHS = ALL_PATHS.filter((path) => !OPEN_PATHS.includes(path));

/** Those of one app, push, device or topic. */
export const OBJECT_PATHS = ALL_PATHS.filter((path) => path.includes('$'));

/** Opens a page and waits until it shows the data that it has requested. @param origin of the console */
export async function visit(
  page: Page,
  origin: string | undefined,
  path: string,
  ids: PageIds,
): Promise<void> {
  // A page behind another one draws nothing.
  await page.bringToFront();
  await page.goto(`${origin}${fillPath(path, ids)}`);
  await waitUntilSettled(page);
}

/** Returns the address of a page without its origin. */
export function fillPath(path: string, ids: PageIds): string {
  return path.replace(/\$(\w+)/g, (_all, name: string) => {
    if (name in ids) return ids[name as keyof PageIds];
    throw new Error(`the tests know no id for ${name}`);
  });
}
