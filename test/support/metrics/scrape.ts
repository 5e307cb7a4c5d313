import type { Stack } from '../stack.ts';

/** One line of a metric: its name, its labels and its value. */
export interface ScrapedSample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

/** Metrics that a process exposes. */
export interface Scrape {
  service: string;
  /** Type and help by the name of the metric. */
  metrics: Map<string, { type: string; help: string }>;
  samples: ScrapedSample[];
}

const SAMPLE = /^(\w+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** Reads the metrics of all services of a stack. */
export async function scrapeAll({ dev }: Pick<Stack, 'dev'>): Promise<Scrape[]> {
  const scrapes = dev.processes.flatMap(({ service, ops }) =>
    ops === undefined ? [] : [scrape(service, ops)],
  );
  return Promise.all(scrapes);
}

async function scrape(service: string, ops: string): Promise<Scrape> {
  const response = await fetch(`${ops}/metrics`);
  return parseMetrics(service, await response.text());
}

/** Parses the text format of Prometheus. @throws for a line that is none of it */
function parseMetrics(service: string, text: string): Scrape {
  const metrics: Scrape['metrics'] = new Map();
  const samples: ScrapedSample[] = [];
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const [, kind, name = '', rest = ''] = /^# (HELP|TYPE) (\w+) (.*)$/.exec(line) ?? [];
    if (kind === undefined) samples.push(parseSample(line));
    else {
      const described = metrics.get(name) ?? { type: '', help: '' };
      metrics.set(name, { ...described, [kind.toLowerCase()]: rest });
    }
  }
  return { service, metrics, samples };
}

function parseSample(line: string): ScrapedSample {
  const [, name, labelText = '', value] = SAMPLE.exec(line) ?? [];
  if (name === undefined) throw new Error(`not a line of the text format: ${line}`);
  const labels = [...labelText.matchAll(LABEL)].map(([, label = '', text = '']) => [label, text]);
  return { name, labels: Object.fromEntries(labels), value: Number(value) };
}

/** Adds up a metric over all processes by a key, without keys that are 0; without labels the key is ''. */
export function sumBy(
  scrapes: readonly Scrape[],
  name: string,
  toKey: (labels: Record<string, string>) => string = () => '',
): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { samples } of scrapes)
    for (const sample of samples) {
      if (sample.name !== name) continue;
      const key = toKey(sample.labels);
      if (sample.value > 0) sums[key] = (sums[key] ?? 0) + sample.value;
    }
  return sums;
}
