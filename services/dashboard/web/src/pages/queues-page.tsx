import { Button, Stack, Table, Text } from '@mantine/core';
import type { ConsoleApi } from '../api/types.ts';
import { useGet } from '../api/use-get.ts';
import { countComplete } from '../lib/chart-scale.ts';
import { useCurrentApp } from '../lib/current-app.ts';
import { channelLabel } from '../lib/outcomes.ts';
import { formatCount, formatDuration } from '../lib/times.ts';
import { BusiestApps } from '../parts/apps-table.tsx';
import { Sparkline } from '../parts/chart/sparkline.tsx';
import { TextLink } from '../parts/links.tsx';
import { Loaded } from '../parts/loaded.tsx';
import { Page } from '../parts/page.tsx';
import { Panel } from '../parts/panel.tsx';

const READ_EVERY_MS = 5_000;
const JOBS_HEAD = [
  ...['Queue', 'Waiting', 'Active', 'Delayed', 'Oldest waiting'],
  ...['Taken per second', 'Time to drain', 'Last hour', 'Worker'],
];

/** Shows the jobs of each queue and the pending batches of each channel, and opens Bull Board. */
export function QueuesPage() {
  const query = useGet('/queues', {}, { everyMs: READ_EVERY_MS });
  return (
    <Page
      title="Queues"
      description="A job only announces work, which is stored in MongoDB. A lost job is added again within seconds."
      actions={
        <Button component="a" href="/queues/board/" size="xs" variant="default">
          Open Bull Board
        </Button>
      }
    >
      <Loaded query={query} height={420}>
        {({ readAt, times, queues, channels }) => (
          <>
            <Panel title="Jobs in Redis">
              <Figures
                head={JOBS_HEAD}
                rows={queues.map((queue) => [
                  queue.name,
                  formatCount(queue.waiting),
                  formatCount(queue.active),
                  formatCount(queue.delayed),
                  formatAge(queue.oldestWaitingMs),
                  formatRate(queue.perSecond),
                  formatDrain(queue),
                  <LastHour
                    key="hour"
                    taken={queue.taken.slice(0, countComplete(times, readAt))}
                  />,
                  queue.hasWorker ? 'Takes jobs' : <NoWorker key="none" />,
                ])}
              />
              <Text fz="xs" c="dimmed" mt="xs" maw={720}>
                The states are those of BullMQ; waiting includes prioritized. The rate is of this
                minute, and of the last one while this one is new: jobs that workers have taken,
                each of one or more deliveries. At that rate the waiting jobs are taken within the
                time to drain.
              </Text>
            </Panel>
            <Panel title="Pending batches in MongoDB">
              {channels.length === 0 ? (
                <Text fz="sm" c="dimmed">
                  Not known at the moment: the database has not responded.
                </Text>
              ) : (
                <Figures
                  head={['Channel', 'Pending', 'Deferred', 'Oldest']}
                  rows={channels.map(({ channel, pending, deferred, oldestMs }) => [
                    channelLabel(channel),
                    formatCount(pending),
                    formatCount(deferred),
                    formatAge(pending === 0 ? null : oldestMs),
                  ])}
                />
              )}
            </Panel>
          </>
        )}
      </Loaded>
      <BusiestApps />
      <FailedJobs />
    </Page>
  );
}

function FailedJobs() {
  const app = useCurrentApp();
  return (
    <Panel title="Failed jobs">
      <Stack gap="xs">
        <Text fz="sm" maw={720}>
          Bull Board lists no failed and no completed jobs: both are removed from Redis on purpose.
          A job that fails loses nothing, because its batch stays pending in MongoDB and gets a new
          job. Deliveries that have failed for good are listed with their reasons, and can be sent
          again, under{' '}
          {app === undefined ? (
            <TextLink to="/apps" inherit underline="always">
              the failed deliveries of each app
            </TextLink>
          ) : (
            <TextLink to="/apps/$app/failures" params={{ app }} inherit underline="always">
              failed deliveries
            </TextLink>
          )}
          .
        </Text>
        <Text fz="sm" maw={720}>
          In Bull Board, operators can retry and promote jobs. Its other buttons are refused for
          everybody: a job that is added by hand would have no batch, and a queue that is paused or
          emptied delays deliveries.
        </Text>
      </Stack>
    </Panel>
  );
}

/** Shows the jobs that were taken in each complete minute. */
function LastHour({ taken }: { taken: readonly number[] }) {
  const total = taken.reduce((sum, count) => sum + count, 0);
  if (total === 0) return '–';
  return <Sparkline label={`${formatCount(total)} jobs in the last hour`} values={taken} />;
}

function formatRate(perSecond: number): string {
  return perSecond < 10 ? perSecond.toFixed(1) : formatCount(Math.round(perSecond));
}

type Queue = ConsoleApi['get /queues']['queues'][number];

/** Formats the time to drain: unknown until a worker has taken a job, never without a worker. */
function formatDrain({ waiting, drainMs, hasWorker }: Queue): string {
  if (waiting > 0 && !hasWorker) return 'Never';
  return waiting === 0 || drainMs === null ? '–' : formatDuration(drainMs);
}

function formatAge(ms: number | null): string {
  return ms === null ? '–' : formatDuration(ms);
}

function NoWorker() {
  return (
    <Text span fz="sm" c="var(--mantine-color-error)">
      None
    </Text>
  );
}

function Figures({ head, rows }: { head: string[]; rows: React.ReactNode[][] }) {
  return (
    // A scrolling area must be reachable by keyboard.
    <Table.ScrollContainer minWidth={head.length * 90} type="native" tabIndex={0}>
      <Table fz="sm" verticalSpacing={4}>
        <Table.Thead>
          <Table.Tr>
            {head.map((name, column) => (
              <Table.Th key={name} ta={column === 0 ? 'left' : 'right'}>
                {name}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map(([first, ...cells]) => (
            <Table.Tr key={String(first)}>
              <Table.Td>{first}</Table.Td>
              {cells.map((cell, column) => (
                <Table.Td key={head[column + 1]} ta="right">
                  {cell}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
