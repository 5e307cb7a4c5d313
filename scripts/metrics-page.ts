import { METRICS, type Metric } from '../packages/runtime/src/metric-list.ts';

const INTRODUCTION = `<!-- Written by \`npm run docs:settings\` from packages/runtime/src/metric-list.ts; change that. -->

# Metrics

Every service exposes these metrics in the text format of Prometheus at \`/metrics\` of its operators' port, beside those of the
process (\`process_\`, \`nodejs_\`).

- Counters end in \`_total\` and start at 0 with each process: take rates, and add up the processes, as in
  \`sum by (channel, outcome) (rate(carillon_recipients_total[5m]))\`.
- A histogram \`x\` has the series \`x_bucket\`, \`x_sum\` and \`x_count\`. Histograms are
  HISTOGRAMS; all others are gauges.
- Label values come from small fixed sets; only \`carillon_app_pending_batches\` has ids.
- \`carillon canary --listen\` has its own: \`carillon_canary_delivery_seconds\`, \`carillon_canary_failures_total\` and
  \`carillon_canary_last_success_timestamp_seconds\`.
`;

const NOTES = `## How recipients are counted

\`carillon_recipients_total\` counts each recipient once, when the outcome is saved; one in an inbox when it is acknowledged, expires
or is deleted, or, as \`superseded\`, when its push ends. \`mqtt\` also counts what FCM delivered as a fallback. Once the pushes are
finished, the sum over all processes equals the outcomes that \`carillon push outcomes\` shows, except for recipients

- whose process was killed or lost MongoDB between the write and the count, or whose batch was worked twice: they are missing;
- that acknowledge on iOS over MQTT after they were counted as \`sent\`: they stay counted so;
- that two processes end at once, such as by a receipt and by expiry.
`;

/** Renders docs/run/metrics.md. */
export function renderMetricsPage(): string {
  const metrics = Object.entries<Metric>(METRICS);
  const rows = metrics.map(
    ([name, { labels, services, help }]) =>
      `| \`${name}${labels.length > 0 ? `{${labels.join()}}` : ''}\` | ${listServices(services)} | ${help} |`,
  );
  const histograms = metrics.filter(([, { type }]) => type === 'histogram');
  const table = ['| metric, labels | services | meaning |', '|---|---|---|', ...rows];
  return [
    INTRODUCTION.replace('HISTOGRAMS', code(histograms.map(([name]) => name))),
    `${table.join('\n')}\n`,
    NOTES,
  ].join('\n');
}

function listServices(services: Metric['services']): string {
  if (services.includes('dashboard') && services.length > 1) return 'all';
  return services.length > 2 ? 'all but `dashboard`' : code(services);
}

function code(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(', ');
}
