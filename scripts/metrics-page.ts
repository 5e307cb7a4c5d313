import { METRICS, type Metric } from '../packages/runtime/src/metric-list.ts';

const INTRODUCTION = `<!-- Written by \`npm run docs:settings\` from packages/runtime/src/metric-list.ts; change that. -->

# Metrics

Every service exposes these metrics in the text format of Prometheus at \`/metrics\` of its operators' port, beside the
\`process_\` and \`nodejs_\` metrics of the process.

- Label values come from small fixed sets: never a token, key, id, topic or address.
- Counters start at 0 with each process. Take rates, and add up the processes: \`sum by (channel, outcome)
  (rate(carillon_recipients_total[5m]))\`.
- A histogram \`x\` has the series \`x_bucket\`, \`x_sum\` and \`x_count\`.
`;

const NOTES = `## How recipients are counted

\`carillon_recipients_total\` counts each recipient once, when the outcome is saved. The sum over all processes equals the
outcomes that \`carillon push outcomes\` shows, once the pushes are finished. It differs

- after a process was killed or lost MongoDB between a write and its count: those recipients are missing;
- after a batch was worked twice, for receipts over MQTT in between without an inbox row: those are missing;
- for an iOS device that acknowledges over MQTT after it was counted as \`sent\`: it stays counted so;
- for a recipient that two processes end concurrently, for instance a receipt while its push expires.

A push that waits in an inbox is counted when it is acknowledged, expires or is deleted, or, as \`superseded\`, when a push that a
newer one has replaced ends. The channel is that of the device's batch: \`mqtt\` also when FCM delivered it as a fallback.
`;

/** Renders docs/run/metrics.md. */
export function renderMetricsPage(): string {
  const rows = Object.entries<Metric>(METRICS).map(
    ([name, { type, labels, services, help }]) =>
      `| \`${name}\` | ${type} | ${code(labels)} | ${code(services)} | ${help} |`,
  );
  const table = ['| Name | Type | Labels | Services | Meaning |', '|---|---|---|---|---|', ...rows];
  return [INTRODUCTION, `${table.join('\n')}\n`, NOTES].join('\n');
}

function code(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(', ');
}
