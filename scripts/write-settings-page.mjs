// Writes docs/run/settings.md from the schemas of the services' settings:
//
//   npm run docs:settings

import { writeFileSync } from 'node:fs';
import { renderSettingsPage } from '../test/support/settings-page.ts';

writeFileSync(new URL('../docs/run/settings.md', import.meta.url), renderSettingsPage());
