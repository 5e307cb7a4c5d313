import { Group, Text } from '@mantine/core';
import type { LiveStatus } from '../live/live-status.ts';
import classes from './live-state.module.css';
import { Time } from './time.tsx';

/** Says whether the data on a page are live, and if not, since when. */
export function LiveState({ status }: { status: LiveStatus | undefined }) {
  const isStopped = status?.live === false;
  return (
    <Group gap={6} role="status" wrap="nowrap">
      <span
        className={isStopped ? classes.stopped : classes.live}
        data-known={status !== undefined}
      />
      <Text fz="xs" c={isStopped ? 'var(--mantine-color-error)' : 'dimmed'}>
        {status === undefined && 'Connecting …'}
        {status?.live === true && 'Live'}
        {isStopped && (
          <>
            Not live since <Time at={status.since} />
          </>
        )}
      </Text>
    </Group>
  );
}
