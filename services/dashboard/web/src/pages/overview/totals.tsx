import { Paper, SimpleGrid, Text } from '@mantine/core';
import type { Overview } from '../../api/types.ts';
import { sumMinutes } from '../../lib/overview-sums.ts';
import { formatCount, formatDuration } from '../../lib/times.ts';

/** Shows the sums of the overview's minutes, and the latency of the installation. */
export function Totals({ overview: { minutes, latency, scope } }: { overview: Overview }) {
  const { accepted, delivered, sent, failed } = sumMinutes(minutes);
  return (
    <SimpleGrid cols={{ base: 2, xs: 3, lg: 6 }} spacing="sm">
      <Total name="Pushes accepted" value={formatCount(accepted)} />
      <Total name="Delivered" value={formatCount(delivered)} mark="delivered" />
      <Total name="Sent to providers" value={formatCount(sent)} mark="sent" />
      <Total name="Failed" value={formatCount(failed)} mark="failed" />
      {scope === 'installation' && (
        <>
          <Total name="Latency, half within" value={formatLatency(latency.p50Ms)} />
          <Total name="Latency, 99 % within" value={formatLatency(latency.p99Ms)} />
        </>
      )}
    </SimpleGrid>
  );
}

function formatLatency(ms: number | null): string {
  return ms === null ? '–' : formatDuration(ms);
}

function Total({ name, value, mark }: { name: string; value: string; mark?: string }) {
  return (
    <Paper
      withBorder
      p="sm"
      // Without a mark it is as wide, so that the values are on one line.
      style={{
        borderTop: `3px solid var(${mark === undefined ? '--mantine-color-default-border' : `--outcome-${mark}`})`,
      }}
    >
      <Text fz="xs" c="dimmed">
        {name}
      </Text>
      <Text fz={22} fw={600} lh={1.3}>
        {value}
      </Text>
    </Paper>
  );
}
