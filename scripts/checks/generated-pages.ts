import { renderPerformancePage } from '../../bench/performance-page.ts';
import { readResults } from '../../bench/support/results.ts';
import { renderLimitsPage } from '../limits-page.ts';
import { renderMetricsPage } from '../metrics-page.ts';
import { listVariables, renderSettingsPage, SECRETS } from '../settings-page.ts';
import { demand, readText } from './files.ts';

/** Names that sound like a secret; the address of the console has no password. */
const SECRETIVE = /KEY|PEPPER|SECRET|PASSWORD|TOKEN|URI|^(?!CONSOLE_|PUBLIC_).*URL/;
const MAX_PERFORMANCE_LINES = 150;

/** Checks that generated pages are what their commands write, and that the page of settings is complete. */
export async function checkPages(root: string): Promise<string[]> {
  const settings = renderSettingsPage();
  const performance = renderPerformancePage(await readResults());
  const pages = [
    ['docs/run/settings.md', settings, 'docs:settings'],
    ['docs/run/metrics.md', renderMetricsPage(), 'docs:settings'],
    ['docs/use/limits.md', renderLimitsPage(), 'docs:settings'],
    ['docs/performance.md', performance, 'bench'],
  ] as const;
  const rows = [...settings.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, name]) => name);
  const variables = listVariables();
  const isLong = performance.split('\n').length > MAX_PERFORMANCE_LINES;
  return [
    ...pages
      .filter(([page, text]) => readText(root, page) !== text)
      .map(([page, , command]) => `${page} is not what \`npm run ${command}\` writes`),
    ...demand(!isLong, `docs/performance.md has more than ${MAX_PERFORMANCE_LINES} lines`),
    ...variables
      .filter((name) => SECRETIVE.test(name) && !(name in SECRETS))
      .map((name) => `${name} sounds like a secret, but is not marked as one`),
    ...Object.keys(SECRETS)
      .filter((name) => !variables.includes(name))
      .map((name) => `${name} is marked as a secret, but no setting`),
    ...variables
      .filter((name) => !rows.includes(name))
      .map((name) => `${name} has no row in docs/run/settings.md`),
    ...rows
      .filter((name = '') => !variables.includes(name))
      .map((name) => `docs/run/settings.md has a row of ${name}, which is no setting`),
  ];
}
