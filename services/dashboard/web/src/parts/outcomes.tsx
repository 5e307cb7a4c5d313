import { Box, Group, Text } from '@mantine/core';
import type { Counts } from '../api/types.ts';
import { listCounts, outcomeStyle } from '../lib/outcomes.ts';
import { formatCount } from '../lib/times.ts';
import classes from './outcomes.module.css';

/** Shows the mark of an outcome and its name. */
export function OutcomeMark({ outcome }: { outcome: string }) {
  const { label, color, meaning } = outcomeStyle(outcome);
  return (
    <span className={classes.mark} title={meaning}>
      <span className={classes.dot} style={{ background: color }} />
      {label}
    </span>
  );
}

/** Shows recipients by outcome as one bar. A text beside it or its label says the same. */
export function OutcomeBar({ counts, height = 10 }: { counts: Counts; height?: number }) {
  const entries = listCounts(counts);
  const total = entries.reduce((sum, { count }) => sum + count, 0);
  const label = entries
    .map(({ name, count }) => `${outcomeStyle(name).label} ${formatCount(count)}`)
    .join(', ');
  return (
    <div
      className={classes.bar}
      style={{ height }}
      role="img"
      aria-label={label === '' ? 'No recipient has an outcome yet' : label}
      title={label}
    >
      {entries.map(({ name, count }) => (
        <span
          key={name}
          style={{ flexGrow: count / total, background: outcomeStyle(name).color }}
        />
      ))}
    </div>
  );
}

/** Lists recipients by outcome with their share. */
export function OutcomeLegend({ counts }: { counts: Counts }) {
  const entries = listCounts(counts);
  const total = entries.reduce((sum, { count }) => sum + count, 0);
  return (
    <Group gap="lg" component="ul" className={classes.legend}>
      {entries.map(({ name, count }) => (
        <Box key={name} component="li">
          <OutcomeMark outcome={name} />
          <Text fw={600} fz="lg" lh={1.2}>
            {formatCount(count)}
          </Text>
          <Text c="dimmed" fz="xs">
            {formatShare(count / total)}
          </Text>
        </Box>
      ))}
    </Group>
  );
}

/** A share that is not all must not be shown as 100 %, nor one that is something as 0 %. */
function formatShare(share: number): string {
  const percent = share * 100;
  if (percent > 99.9 && percent < 100) return '> 99.9 %';
  if (percent < 0.1) return '< 0.1 %';
  return `${percent.toFixed(percent === 100 ? 0 : 1)} %`;
}
