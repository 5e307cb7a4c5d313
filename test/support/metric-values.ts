/** Reads the values of a metric from a process's /metrics, by the value of its only label; without one by ''. */
export async function readMetric(
  ops: string | undefined,
  name: string,
): Promise<Record<string, number>> {
  const text = await (await fetch(`${ops}/metrics`)).text();
  const line = new RegExp(`^${name}(?:\\{\\w+="([^"]*)"\\})? (\\S+)$`, 'gm');
  return Object.fromEntries(
    [...text.matchAll(line)].map(([, label = '', value]) => [label, Number(value)]),
  );
}
