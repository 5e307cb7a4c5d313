import { Text } from '@mantine/core';
import type { Overview, OverviewMinute } from '../../api/types.ts';
import { sumMinutes } from '../../lib/overview-sums.ts';
import { formatCompact, formatCount, formatDuration } from '../../lib/times.ts';
import { LineChart } from '../../parts/chart/line-chart.tsx';
import { Panel } from '../../parts/panel.tsx';
import classes from './overview.module.css';

const HEIGHT = 220;

type ChartProps = Pick<Overview, 'minutes' | 'readAt'>;

/** Shows deliveries and latency by minute. */
export function Charts(props: ChartProps) {
  return (
    <div className={classes.columns}>
      <Deliveries {...props} />
      <Panel title="Latency by minute">
        <Latencies {...props} />
      </Panel>
    </div>
  );
}

/** Shows accepted pushes and the ends of deliveries by minute. */
export function Deliveries(props: ChartProps) {
  return (
    <Panel title="Pushes and deliveries by minute">
      <DeliveryLines {...props} />
    </Panel>
  );
}

function DeliveryLines({ minutes, readAt }: ChartProps) {
  if (minutes.length === 0) return <Nothing>Nothing has been sent yet.</Nothing>;
  const { accepted, delivered, sent, failed } = sumMinutes(minutes);
  const series = (label: string, outcome: string, read: (minute: OverviewMinute) => number) => ({
    ...{ label, color: `var(--outcome-${outcome})`, values: minutes.map(read) },
  });
  return (
    <LineChart
      label={`${minutes.length} minutes: ${accepted} pushes accepted, ${delivered} deliveries delivered, ${sent} sent to providers, ${failed} failed`}
      times={minutes.map(({ at }) => at)}
      readAt={readAt}
      series={[
        series('Pushes accepted', 'pending', (minute) => minute.accepted),
        series('Delivered', 'delivered', (minute) => minute.delivered),
        series('Sent to providers', 'sent', (minute) => minute.sent),
        series('Failed', 'failed', (minute) => minute.failed.failed ?? 0),
      ]}
      height={HEIGHT}
      format={formatCount}
      formatTick={formatCompact}
      minStep={1}
    />
  );
}

/** A minute without a receipt has no latency. */
function Latencies({ minutes, readAt }: ChartProps) {
  const p50 = minutes.map(({ latency }) => latency.p50Ms);
  const p99 = minutes.map(({ latency }) => latency.p99Ms);
  if (p99.every((ms) => ms === null))
    return <Nothing>No connected device has sent a receipt in this time.</Nothing>;
  return (
    <LineChart
      label={`Latency from acceptance to receipt in ${minutes.length} minutes, at most ${formatDuration(Math.max(...p99.map((ms) => ms ?? 0)))} for 99 % of a minute`}
      times={minutes.map(({ at }) => at)}
      readAt={readAt}
      series={[
        { label: 'Half within', color: 'var(--latency-p50)', values: p50 },
        { label: '99 % within', color: 'var(--latency-p99)', values: p99 },
      ]}
      height={HEIGHT}
      format={formatDuration}
    />
  );
}

function Nothing({ children }: { children: string }) {
  return (
    <Text fz="sm" c="dimmed">
      {children}
    </Text>
  );
}
