// Writes k8s/components/monitoring/prometheus-rule.yaml from the rule files beside it:
//
//   npm run k8s:rules
//   npm run k8s:rules -- --runbooks=https://git.example.com/ops/carillon/blob/main
//   npm run k8s:rules -- --runbooks=URL --out=FOLDER
//
// The rule files are what promtool checks; the Prometheus operator wants the same groups in an object of its own.
//
// `--runbooks` is the address below which your alerts' runbooks are: each `runbook_url`, a path of this repository, is
// appended to it. The object keeps it in an annotation, so that the next run without the option has the same; an empty one
// removes it. `--out` writes the object and the plain rule files, for a Prometheus without the operator, to that folder.

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { parse, stringify } from 'yaml';

const ANNOTATION = 'carillon/runbooks';
const OBJECT = 'prometheus-rule.yaml';
const monitoring = fileURLToPath(new URL('../k8s/components/monitoring/', import.meta.url));

/** Returns the address from the option, or from the annotation of the object that this one replaces; '' for none. */
function readBase(option, path) {
  if (option === '') return '';
  const written = existsSync(path) ? parse(readFileSync(path, 'utf8')).metadata.annotations : {};
  const base = option ?? written?.[ANNOTATION] ?? '';
  if (base !== '' && !/^https?:\/\/[^/\s]+\S*$/.test(base)) {
    throw new Error(`--runbooks=${base} is not an address: write http:// or https://`);
  }
  return base.replace(/\/+$/, '');
}

function writeRules(folder, option) {
  const base = readBase(option, join(folder, OBJECT));
  const files = readdirSync(join(monitoring, 'rules'))
    .filter((name) => name.endsWith('.yaml'))
    .sort()
    .map((name) => {
      const text = readFileSync(join(monitoring, 'rules', name), 'utf8');
      return {
        name,
        text: base === '' ? text : text.replace(/(?<=^ *runbook_url: )(?=docs\/)/gm, `${base}/`),
      };
    });
  const annotations = base === '' ? {} : { annotations: { [ANNOTATION]: base } };
  const rule = {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: { name: 'carillon', ...annotations },
    spec: { groups: files.flatMap(({ text }) => parse(text).groups) },
  };
  writeFileSync(
    join(folder, OBJECT),
    `# Written by \`npm run k8s:rules\` from rules/; change those.\n${stringify(rule, { lineWidth: 0 })}`,
  );
  return files;
}

const { values: options } = parseArgs({
  options: { runbooks: { type: 'string' }, out: { type: 'string' } },
});
try {
  const folder = options.out ?? monitoring;
  mkdirSync(join(folder, 'rules'), { recursive: true });
  const files = writeRules(folder, options.runbooks);
  // The files in the repository are the source.
  if (options.out !== undefined) {
    for (const { name, text } of files) writeFileSync(join(folder, 'rules', name), text);
  }
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
