import { Box, Skeleton } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { Outlet, useLocation, useNavigate } from '@tanstack/react-router';
import { lazy, Suspense, useEffect, useState } from 'react';
import { Failure } from '../parts/failure.tsx';
import { Loading } from '../parts/loaded.tsx';
import { Header } from './header.tsx';
import { HealthLine } from './health-line.tsx';
import { KeyHelp } from './key-help.tsx';
import { Navigation } from './navigation.tsx';
import { OwnAccess } from './own-access.tsx';
import { useSearchRequests } from './search-request.ts';
import { SessionContext, useSessionQuery } from './session.ts';
import classes from './shell.module.css';

const Search = lazy(async () => ({ default: (await import('./search.tsx')).Search }));

/** Shows the pages of an operator; without a session the login, which leads back to the same address. */
export function Shell() {
  const session = useSessionQuery();
  if (session.data === null) return <ToLogin />;
  if (session.data !== undefined) {
    return (
      <SessionContext.Provider value={session.data}>
        <Frame />
      </SessionContext.Provider>
    );
  }
  return (
    <Box component="main" maw={1_140} mx="auto" px="md" py="xl">
      {session.isError ? (
        <Failure error={session.error} retry={() => session.refetch()} />
      ) : (
        <Loading>
          <Skeleton height={40} mb="md" />
          <Skeleton height={320} />
        </Loading>
      )}
    </Box>
  );
}

/** Leads to the login once: the address changes while the login's code is loaded. */
function ToLogin() {
  const { href } = useLocation();
  const [next] = useState(href);
  const navigate = useNavigate();
  useEffect(() => {
    void navigate({ to: '/login', search: { next }, replace: true });
  }, [navigate, next]);
  return null;
}

function Frame() {
  const [isOpen, { toggle, close }] = useDisclosure();
  const { pathname } = useLocation();
  const searchRequests = useSearchRequests();
  // Another page closes the navigation of a phone
  useEffect(close, [pathname]);
  return (
    <>
      <a className="skip-link" href="#main">
        Skip to the content
      </a>
      <header className={classes.header}>
        <Header isNavigationOpen={isOpen} onToggleNavigation={toggle} />
      </header>
      <div className={classes.columns}>
        <nav className={classes.navigation} aria-label="Pages" data-open={isOpen || undefined}>
          <Navigation />
          <OwnAccess />
        </nav>
        <main className={classes.main} id="main" tabIndex={-1}>
          <HealthLine />
          <Outlet />
        </main>
      </div>
      {searchRequests > 0 && (
        <Suspense>
          <Search requests={searchRequests} />
        </Suspense>
      )}
      <KeyHelp />
    </>
  );
}
