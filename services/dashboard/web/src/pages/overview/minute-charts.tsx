import { AreaChart } from '@mantine/charts';
import '@mantine/charts/styles.css';
import type { OverviewMinute } from '../../api/types.ts';
import { sumMinutes } from '../../lib/overview-sums.ts';
import { formatClock, formatCount } from '../../lib/times.ts';

const SERIES = [
  { name: 'delivered', label: 'Delivered', color: 'var(--outcome-delivered)' },
  { name: 'sent', label: 'Sent to providers', color: 'var(--outcome-sent)' },
  { name: 'failed', label: 'Failed', color: 'var(--outcome-failed)' },
  { name: 'accepted', label: 'Pushes accepted', color: 'var(--outcome-pending)' },
];

interface MinuteChartsProps {
  minutes: readonly OverviewMinute[];
  height: number;
}

/** Shows deliveries and accepted pushes by minute. The totals above say in words what the chart shows. */
export function MinuteCharts({ minutes, height }: MinuteChartsProps) {
  const data = minutes.map(({ at, accepted, delivered, sent, failed }) => ({
    at: formatClock(at).slice(0, 5),
    ...{ accepted, delivered, sent, failed: failed.failed ?? 0 },
  }));
  return (
    <div role="img" aria-label={describe(minutes)}>
      <AreaChart
        h={height}
        data={data}
        dataKey="at"
        series={SERIES}
        curveType="linear"
        withDots={false}
        withLegend
        fillOpacity={0.12}
        strokeWidth={1.5}
        valueFormatter={formatCount}
        areaChartProps={{ accessibilityLayer: false }}
        areaProps={{ isAnimationActive: false }}
      />
    </div>
  );
}

function describe(minutes: readonly OverviewMinute[]): string {
  const { accepted, delivered, sent, failed } = sumMinutes(minutes);
  return `Last ${minutes.length} minutes: ${accepted} pushes accepted, ${delivered} deliveries delivered, ${sent} sent to providers, ${failed} failed`;
}
