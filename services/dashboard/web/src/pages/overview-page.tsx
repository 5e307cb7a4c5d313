import { Grid, Skeleton, Stack } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';
import type { Overview } from '../api/types.ts';
import { useGet } from '../api/use-get.ts';
import { useLive } from '../live/use-live.ts';
import { LiveState } from '../parts/live-state.tsx';
import { Loaded } from '../parts/loaded.tsx';
import { Page } from '../parts/page.tsx';
import { Panel } from '../parts/panel.tsx';
import { Time } from '../parts/time.tsx';
import { Channels, Failures, Gateways, RefusedCredentials } from './overview/panels.tsx';
import { Totals } from './overview/totals.tsx';

// The charts are most of the code, and only this page has some.
const MinuteCharts = lazy(async () => ({
  default: (await import('./overview/minute-charts.tsx')).MinuteCharts,
}));

const PATH = '/overview';
const CHART_HEIGHT = 240;

/** Shows how the installation is, live. */
export function OverviewPage() {
  const overview = useGet<Overview>(PATH);
  const client = useQueryClient();
  const status = useLive({ overview: true }, (message) => {
    if (message.kind !== 'overview') return;
    client.setQueryData([PATH, {}], JSON.parse(message.data) as Overview);
  });
  return (
    <Page
      title="Overview"
      {...(overview.data !== undefined && { description: describePeriod(overview.data) })}
      actions={<LiveState status={status} />}
    >
      <Loaded query={overview} height={520}>
        {(found) =>
          found.scope === 'accounts' ? (
            <RefusedCredentials overview={found} />
          ) : (
            <Whole overview={found} />
          )
        }
      </Loaded>
    </Page>
  );
}

function describePeriod({ since, minutes, scope }: Overview) {
  if (scope === 'accounts') return 'Figures are of the whole installation, which you do not see.';
  if (since === null) return 'There are no figures yet: they come with the first push.';
  return (
    <>
      {minutes.length === 1 ? 'The last minute' : `The last ${minutes.length} minutes`}. Figures
      exist since <Time at={since} />.
    </>
  );
}

function Whole({ overview }: { overview: Overview }) {
  const { minutes, refusedCredentials } = overview;
  return (
    <Stack gap="md">
      {refusedCredentials.length > 0 && <RefusedCredentials overview={overview} />}
      <Totals overview={overview} />
      <Panel title="Pushes and deliveries by minute">
        <Suspense fallback={<Skeleton height={CHART_HEIGHT} />}>
          <MinuteCharts minutes={minutes} height={CHART_HEIGHT} />
        </Suspense>
      </Panel>
      <Grid>
        <Grid.Col span={{ base: 12, md: 7 }}>
          <Channels overview={overview} />
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 5 }}>
          <Gateways overview={overview} />
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 7 }}>
          <Failures overview={overview} />
        </Grid.Col>
        {refusedCredentials.length === 0 && (
          <Grid.Col span={{ base: 12, md: 5 }}>
            <RefusedCredentials overview={overview} />
          </Grid.Col>
        )}
      </Grid>
    </Stack>
  );
}
