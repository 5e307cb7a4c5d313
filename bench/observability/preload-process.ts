import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';
import { ABLATIONS, type Ablation, applyEdits } from './ablations.ts';

// Loaded into the services by `--import`: leaves the part that the URL's query names out of their sources.
const edits = ABLATIONS[new URL(import.meta.url).search.slice(1) as Ablation];

registerHooks({
  load(url, context, nextLoad) {
    if (!url.startsWith('file:') || !url.endsWith('.ts')) return nextLoad(url, context);
    const path = fileURLToPath(url);
    const source = applyEdits(edits, path, readFileSync(path, 'utf8'));
    if (source === undefined) return nextLoad(url, context);
    return { format: 'module-typescript', source, shortCircuit: true };
  },
});
