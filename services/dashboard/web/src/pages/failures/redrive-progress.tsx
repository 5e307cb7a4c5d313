import '@mantine/core/styles/Progress.css';
import { Button, Progress, Stack, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import type { Redrive } from '../../api/types.ts';
import { useGet } from '../../api/use-get.ts';
import { formatCount } from '../../lib/times.ts';
import { Facts } from '../../parts/facts.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Time } from '../../parts/time.tsx';

const REFRESH_MS = 1_000;

const STATES = { running: 'Running', finished: 'Finished', stopped: 'Stopped' } as const;
const SKIPS: Record<string, string> = {
  removed: 'no longer stored',
  deleted: 'deleted',
  'nothing-failed': 'nothing left that failed',
};

interface RedriveProgressProps {
  app: string;
  id: string;
  onClose: () => void;
}

/** Shows the progress of a re-drive, which continues without this page. */
export function RedriveProgress({ app, id, onClose }: RedriveProgressProps) {
  const path = `/redrives/${id}` as const;
  const first = useGet(path);
  const isRunning = first.data?.state === 'running';
  const redrive = useGet(path, {}, { everyMs: isRunning ? REFRESH_MS : false });
  const client = useQueryClient();
  const state = redrive.data?.state;
  useEffect(() => {
    if (state === 'finished')
      void client.invalidateQueries({ queryKey: [`/apps/${app}/failures`] });
  }, [app, client, state]);
  return (
    <Panel
      title="Re-drive"
      {...(state !== undefined && { note: STATES[state] })}
      actions={
        <Button size="compact-xs" variant="subtle" onClick={onClose}>
          Hide
        </Button>
      }
    >
      <Loaded query={redrive} height={80}>
        {(found) => <Progressing redrive={found} />}
      </Loaded>
    </Panel>
  );
}

function Progressing({ redrive }: { redrive: Redrive }) {
  const { total, done, skipped, recipients, skippedReasons, createdAt, endedAt } = redrive;
  const handled = done + skipped;
  const percent = total === undefined || total === 0 ? 0 : (handled / total) * 100;
  const reasons = Object.entries(skippedReasons);
  return (
    <Stack gap="sm">
      <Progress
        value={endedAt !== undefined && total === 0 ? 100 : percent}
        aria-label="Progress of the re-drive"
      />
      <Facts
        facts={[
          [
            'Pushes',
            total === undefined
              ? 'being counted'
              : `${formatCount(handled)} of ${formatCount(total)}`,
          ],
          ['Sent anew', formatCount(done)],
          ['To devices', formatCount(recipients)],
          ['Skipped', formatCount(skipped)],
          ['Began', <Time key="began" at={createdAt} />],
          ['Ended', <Time key="ended" at={endedAt} />],
        ]}
      />
      {reasons.length > 0 && (
        <Text fz="sm" c="dimmed">
          {`Skipped: ${reasons.map(([reason, n]) => `${SKIPS[reason] ?? reason} (${formatCount(n)})`).join(', ')}`}
        </Text>
      )}
    </Stack>
  );
}
