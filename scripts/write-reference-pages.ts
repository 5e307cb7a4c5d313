// Writes the pages of docs that are made from the code: settings, metrics and limits.
//
//   npm run docs:settings

import { writeFileSync } from 'node:fs';
import { renderLimitsPage } from './limits-page.ts';
import { renderMetricsPage } from './metrics-page.ts';
import { renderSettingsPage } from './settings-page.ts';

const DOCS = new URL('../docs/', import.meta.url);

writeFileSync(new URL('run/settings.md', DOCS), renderSettingsPage());
writeFileSync(new URL('run/metrics.md', DOCS), renderMetricsPage());
writeFileSync(new URL('use/limits.md', DOCS), renderLimitsPage());
