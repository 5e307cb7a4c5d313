// Writes k8s/components/monitoring/prometheus-rule.yaml from the rule files beside it:
//
//   npm run k8s:rules
//
// The rule files are what promtool checks and the Prometheus of compose reads; the Prometheus operator wants the same groups
// in an object of its own. Its runbooks are at the console's public address, which overlays replace.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse, stringify } from 'yaml';

const monitoring = fileURLToPath(new URL('../k8s/components/monitoring/', import.meta.url));
const COMPOSE_CONSOLE = 'http://127.0.0.1:4010';
const CONSOLE = 'https://console.example.com';

const texts = readdirSync(join(monitoring, 'rules'))
  .filter((name) => name.endsWith('.yaml'))
  .sort()
  .map((name) => readFileSync(join(monitoring, 'rules', name), 'utf8'));
const rule = {
  apiVersion: 'monitoring.coreos.com/v1',
  kind: 'PrometheusRule',
  metadata: { name: 'carillon' },
  spec: {
    groups: texts.flatMap((text) => parse(text.replaceAll(COMPOSE_CONSOLE, CONSOLE)).groups),
  },
};
writeFileSync(
  join(monitoring, 'prometheus-rule.yaml'),
  `# Written by \`npm run k8s:rules\` from rules/; change those.\n${stringify(rule, { lineWidth: 0 })}`,
);
