import { Text } from '@mantine/core';
import type { PushItem } from '../../api/types.ts';
import { formatCount } from '../../lib/times.ts';
import { PushLink } from '../../parts/object-links.tsx';
import { OutcomeBar } from '../../parts/outcomes.tsx';

/** Shows a push by its id and its title. */
export function PushName({ id, title }: { id: string; title: string | undefined }) {
  return (
    <>
      <PushLink id={id} />
      {title !== undefined && (
        <Text fz="xs" truncate w={{ base: 140, sm: 220 }} title={title}>
          {title}
        </Text>
      )}
    </>
  );
}

/** Shows a text in one line. */
export function OneLine({ text }: { text: string }) {
  return (
    <Text fz="sm" lineClamp={1} maw={200} title={text}>
      {text}
    </Text>
  );
}

/** Shows whom a push is for: its topics, and how many devices. */
export function Audience({ push: { topics, devices } }: { push: PushItem }) {
  const many = devices === 1 ? 'One device' : `${formatCount(devices)} devices`;
  if (topics === undefined) return <Text fz="sm">{many}</Text>;
  return (
    <>
      <OneLine text={topics.join(', ')} />
      <Text fz="xs" c="dimmed">
        {many}
      </Text>
    </>
  );
}

/** Shows how far a push is: its recipients by outcome, or its batches if there are too many to count. */
export function PushProgress({ push: { counts, batches, devices } }: { push: PushItem }) {
  if (batches !== undefined) {
    const { total, open } = batches;
    return (
      <Text fz="xs">{`${formatCount(total - open)} of ${formatCount(total)} batches done`}</Text>
    );
  }
  if (counts === undefined) return <Text c="dimmed">–</Text>;
  const { delivered = 0, sent = 0, failed = 0 } = counts;
  const reached = `${formatCount(delivered + sent)} of ${formatCount(devices)}`;
  return (
    <>
      <OutcomeBar counts={counts} />
      <Text fz="xs" mt={2}>
        {failed === 0 ? reached : `${reached}, ${formatCount(failed)} failed`}
      </Text>
    </>
  );
}
