// Preloaded into a process: writes the URL of each loaded module that belongs to OpenTelemetry, and its importer, to a
// file beside this one, named by the process.

import { appendFileSync } from 'node:fs';
import * as nodeModule from 'node:module';
import { fileURLToPath } from 'node:url';

const path = fileURLToPath(new URL(`modules-${process.pid}.txt`, import.meta.url));
// The bootstrap may run on a Node without the hooks.
nodeModule.registerHooks?.({
  resolve(specifier, context, nextResolve) {
    const resolved = nextResolve(specifier, context);
    if (resolved.url.includes('opentelemetry')) appendFileSync(path, `${resolved.url}\n`);
    return resolved;
  },
});
