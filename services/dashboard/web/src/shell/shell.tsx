import { AppShell, Container, Skeleton } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { Outlet, useLocation, useNavigate, useRouter } from '@tanstack/react-router';
import { useEffect } from 'react';
import { Failure } from '../parts/failure.tsx';
import { Loading } from '../parts/loaded.tsx';
import { Header } from './header.tsx';
import { KeyHelp } from './key-help.tsx';
import { Navigation } from './navigation.tsx';
import { Search } from './search.tsx';
import { SessionContext, useSessionQuery } from './session.ts';

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
    <Container component="main" size="lg" py="xl">
      {session.isError ? (
        <Failure error={session.error} retry={() => session.refetch()} />
      ) : (
        <Loading>
          <Skeleton height={40} mb="md" />
          <Skeleton height={320} />
        </Loading>
      )}
    </Container>
  );
}

/** Navigates once: the address changes while this part is still shown, until the code of the login is loaded. */
function ToLogin() {
  const navigate = useNavigate();
  const router = useRouter();
  useEffect(() => {
    const next = router.state.location.href;
    void navigate({ to: '/login', search: { next }, replace: true });
  }, [navigate, router]);
  return null;
}

function Frame() {
  const [isOpen, { toggle, close }] = useDisclosure();
  const { pathname } = useLocation();
  // Another page closes the navigation of a phone
  useEffect(close, [pathname]);
  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 216, breakpoint: 'sm', collapsed: { mobile: !isOpen } }}
      padding="md"
    >
      <a className="skip-link" href="#main">
        Skip to the content
      </a>
      <AppShell.Header>
        <Header isNavigationOpen={isOpen} onToggleNavigation={toggle} />
      </AppShell.Header>
      <AppShell.Navbar p="xs" component="nav" aria-label="Pages">
        <Navigation />
      </AppShell.Navbar>
      <AppShell.Main id="main" tabIndex={-1}>
        <Outlet />
      </AppShell.Main>
      <Search />
      <KeyHelp />
    </AppShell>
  );
}
