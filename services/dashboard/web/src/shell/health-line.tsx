import { Anchor, Box, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { Overview, Problem } from '../api/types.ts';
import { useCurrentApp } from '../lib/current-app.ts';
import { useProblems } from '../lib/problems.ts';
import { useLive } from '../live/use-live.ts';
import { TextLink } from '../parts/links.tsx';
import { Ago } from '../parts/time.tsx';
import { useMayInstallation } from './session.ts';
import classes from './shell.module.css';

/** Problems that are shown before the others are asked for. */
const SHOWN = 3;

/**
 * Shows above each page what delays deliveries, since when, and what to do; nothing when all is well. Its live data are
 * those of the overview, which all tabs share.
 */
export function HealthLine() {
  const client = useQueryClient();
  const [redisAwaySince, setRedisAwaySince] = useState<number>();
  const [showsAll, setShowsAll] = useState(false);
  const app = useCurrentApp();
  useLive({ overview: true }, (message) => {
    if (message.kind === 'overview') {
      client.setQueryData(['/overview', {}], JSON.parse(message.data) as Overview);
      setRedisAwaySince(undefined);
    } else if (message.kind === 'unavailable') {
      const { since } = JSON.parse(message.data) as { since: number | null };
      setRedisAwaySince((before) => since ?? before ?? Date.now());
    }
  });
  const known = useProblems();
  const problems = redisAwaySince === undefined ? known : [describeRedis(redisAwaySince)];
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

function describeRedis(since: number): Problem {
  return {
    kind: 'installation',
    since,
    text: 'Redis does not respond.',
    advice: 'Deliveries wait, and nothing is lost. Check that Redis runs: carillon doctor.',
  };
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
