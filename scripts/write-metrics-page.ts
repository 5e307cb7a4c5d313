import { writeFileSync } from 'node:fs';
import { renderMetricsPage } from './metrics-page.ts';

writeFileSync(new URL('../docs/run/metrics.md', import.meta.url), renderMetricsPage());
