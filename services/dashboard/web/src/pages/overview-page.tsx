import { Stack } from '@mantine/core';
import type { Overview } from '../api/types.ts';
import { useGet } from '../api/use-get.ts';
import {
  DEFAULT_RANGE,
  isOverviewRange,
  OVERVIEW_RANGES,
  selectRange,
} from '../lib/overview-range.ts';
import { useUrl } from '../lib/use-url.ts';
import { useLive } from '../live/use-live.ts';
import { AppsTable } from '../parts/apps-table.tsx';
import { LiveState } from '../parts/live-state.tsx';
import { Loaded } from '../parts/loaded.tsx';
import { Page } from '../parts/page.tsx';
import { RangeSelect } from '../parts/range-select.tsx';
import { Time } from '../parts/time.tsx';
import { Charts, Deliveries } from './overview/charts.tsx';
import classes from './overview/overview.module.css';
import { Channels, Failures, Gateways, RefusedCredentials } from './overview/panels.tsx';
import { Totals } from './overview/totals.tsx';

/** Shows how the installation is, live. The range is in the URL. */
export function OverviewPage() {
  const { search, change } = useUrl<'range'>();
  const range = isOverviewRange(search.range) ? search.range : DEFAULT_RANGE;
  const overview = useGet('/overview');
  // The line of health keeps the data of the query live.
  const status = useLive({ overview: true }, () => undefined);
  const shown = overview.data && selectRange(overview.data, range);
  return (
    <Page
      title="Overview"
      {...(shown !== undefined && { description: describePeriod(shown) })}
      actions={
        <>
          <LiveState status={status} />
          <RangeSelect
            value={range}
            options={OVERVIEW_RANGES}
            onChange={(name) => change({ range: name === DEFAULT_RANGE ? undefined : name })}
          />
        </>
      }
    >
      <Loaded query={overview} height={520}>
        {(found) =>
          found.scope === 'accounts' ? (
            <OfAccounts overview={shown ?? found} />
          ) : (
            <Whole overview={shown ?? found} />
          )
        }
      </Loaded>
    </Page>
  );
}

function describePeriod({ since, minutes, scope }: Overview) {
  if (since === null) return 'There are no figures yet: they come with the first push.';
  return (
    <>
      {minutes.length === 1 ? 'The last minute' : `The last ${minutes.length} minutes`}
      {scope === 'accounts' && ' of the apps that you may see'}. Figures exist since{' '}
      <Time at={since} />.
    </>
  );
}

/** Shows the figures of an operator's own apps. Latency, gateways and channels are of the whole installation. */
function OfAccounts({ overview }: { overview: Overview }) {
  return (
    <Stack gap="md">
      <Totals overview={overview} />
      <Deliveries minutes={overview.minutes} readAt={overview.readAt} />
      <AppsTable apps={overview.apps} />
      <RefusedCredentials overview={overview} />
    </Stack>
  );
}

function Whole({ overview }: { overview: Overview }) {
  const { refusedCredentials } = overview;
  return (
    <Stack gap="md">
      {refusedCredentials.length > 0 && <RefusedCredentials overview={overview} />}
      <Totals overview={overview} />
      <Charts minutes={overview.minutes} readAt={overview.readAt} />
      <AppsTable apps={overview.apps} />
      <div className={classes.columns}>
        <Channels overview={overview} />
        <Gateways overview={overview} />
        <Failures overview={overview} />
        {refusedCredentials.length === 0 && <RefusedCredentials overview={overview} />}
      </div>
    </Stack>
  );
}
