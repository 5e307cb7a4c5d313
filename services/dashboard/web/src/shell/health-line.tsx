import { Anchor, Box, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { Overview, Problem } from '../api/types.ts';
import { useGet } from '../api/use-get.ts';
import { useCurrentApp } from '../lib/current-app.ts';
import type { LiveStatus } from '../live/live-status.ts';
import { useLive } from '../live/use-live.ts';
import { TextLink } from '../parts/links.tsx';
import { Ago } from '../parts/time.tsx';
import { useMayInstallation } from './session.ts';
import classes from './shell.module.css';

/** Problems that are shown before the others are asked for. */
const SHOWN = 3;

/**
 * Shows above each page what delays deliveries, since when, and what to do; nothing when all is well. Its live data are
 * those of the overview, which all tabs share; without any yet it requests them once.
 */
export function HealthLine() {
  const client = useQueryClient();
  const [showsAll, setShowsAll] = useState(false);
  const app = useCurrentApp();
  const status = useLive({ overview: true }, (message) => {
    if (message.kind === 'overview')
      client.setQueryData(['/overview', {}], JSON.parse(message.data) as Overview);
  });
  const known = useGet('/overview').data?.problems ?? [];
  const problems = status?.live === false ? describeStop(status, known) : known;
  if (problems.length === 0) return null;
  const concernsApp = (problem: Problem) => Number(problem.app?.id === app);
  const ordered = problems.toSorted((a, b) => concernsApp(b) - concernsApp(a));
  const rest = showsAll ? 0 : problems.length - SHOWN;
  return (
    <Box component="section" aria-label="Problems" className={classes.health}>
      <Text fz="sm" fw={600} c="var(--mantine-color-error)" role="status">
        {problems.length === 1 ? '1 problem' : `${problems.length} problems`}
      </Text>
      <ul>
        {ordered.slice(0, showsAll ? undefined : SHOWN).map((problem) => (
          <ProblemItem key={`${problem.kind} ${problem.text}`} problem={problem} />
        ))}
      </ul>
      {rest > 0 && (
        <Anchor component="button" type="button" fz="sm" onClick={() => setShowsAll(true)}>
          Show {rest} more
        </Anchor>
      )}
    </Box>
  );
}

/** Without Redis other problems are unknown; without the stream the known ones are the last that were read. */
function describeStop({ since, lacksRedis }: LiveStatus, known: readonly Problem[]): Problem[] {
  if (lacksRedis === true) {
    const advice = 'Deliveries wait, and nothing is lost. Check that Redis runs: carillon doctor.';
    return [{ kind: 'installation', since, text: 'Redis does not respond.', advice }];
  }
  const text = 'Live data stopped, so this page may be out of date.';
  const advice =
    'Check the way to the console, and that it runs: carillon doctor. Or close other pages of it: their number is limited.';
  return [{ kind: 'installation', since, text, advice }, ...known];
}

function ProblemItem({ problem }: { problem: Problem }) {
  const { text, since, advice } = problem;
  return (
    <li>
      <Text fz="sm" className="wrap-anywhere">
        {text}
        {since !== null && (
          <>
            {' '}
            It began <Ago at={since} />.
          </>
        )}{' '}
        {advice} <ToCause problem={problem} />
      </Text>
    </li>
  );
}

function ToCause({ problem: { app, queues } }: { problem: Problem }) {
  const mayInstallation = useMayInstallation('viewer');
  if (app !== undefined) {
    return (
      <TextLink
        inherit
        underline="always"
        to="/apps/$app"
        params={{ app: app.id }}
        search={{ tab: 'credentials' }}
      >
        Credentials of {app.name}
      </TextLink>
    );
  }
  if (queues === undefined || !mayInstallation) return null;
  return (
    <TextLink inherit underline="always" to="/queues">
      Show the queues
    </TextLink>
  );
}
