// Writes k8s/components/monitoring/prometheus-rule.yaml from the rule files beside it:
//
//   npm run k8s:rules
//
// The rule files are what promtool checks; the Prometheus operator wants the same groups in an object of its own.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse, stringify } from 'yaml';

const folder = fileURLToPath(new URL('../k8s/components/monitoring/', import.meta.url));
const groups = readdirSync(`${folder}rules`)
  .filter((name) => name.endsWith('.yaml'))
  .sort()
  .flatMap((name) => parse(readFileSync(`${folder}rules/${name}`, 'utf8')).groups);
const rule = {
  apiVersion: 'monitoring.coreos.com/v1',
  kind: 'PrometheusRule',
  metadata: { name: 'carillon' },
  spec: { groups },
};
writeFileSync(
  `${folder}prometheus-rule.yaml`,
  `# Written by \`npm run k8s:rules\` from rules/; change those.\n${stringify(rule, { lineWidth: 0 })}`,
);
