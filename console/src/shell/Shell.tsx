// What surrounds each page: menu, palette, live state, scheme and language.
import { ActionIcon, Button, Menu, useComputedColorScheme, useMantineColorScheme } from '@mantine/core'
import { spotlight } from '@mantine/spotlight'
import { IconKeyboard, IconLogout, IconMoon, IconSearch, IconSun, IconSunMoon } from '@tabler/icons-react'
import { useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useNavigate, useRouterState } from '@tanstack/react-router'
import { useEffect, useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../api/client'
import { keepFresh } from '../app/freshness'
import { changeLanguage, hasStoredLanguage } from '../app/i18n'
import { useKeys } from '../app/keys'
import { listMenu, SECTIONS } from '../app/pages'
import { type Session, useSession } from '../app/session'
import { useTenantMarks } from '../app/tenants'
import { startLive, useStreamState } from '../live/live'
import { Tenant } from '../ui/ShareBar'
import { KeyHelp } from './KeyHelp'
import { LiveState } from './LiveState'
import { Palette } from './Palette'
import { SimulatedMark } from './SimulatedMark'

export function Shell() {
  const { t } = useTranslation('shell')
  const session = useSession()
  const hasMarks = useTenantMarks()
  const queries = useQueryClient()
  const navigate = useNavigate()
  const [isHelpOpen, setHelpOpen] = useState(false)
  const stream = useStreamState()
  const acts = useMemo(
    () => ({ open: (path: string) => void navigate({ to: path }), help: () => setHelpOpen(true) }),
    [navigate],
  )
  useKeys(acts)
  const user = session.data?.user
  useEffect(() => {
    if (user === undefined) return
    startLive()
    return keepFresh(queries)
  }, [user, queries])
  const language = session.data?.language
  useEffect(() => {
    if (language !== undefined && !hasStoredLanguage()) changeLanguage(language, false)
  }, [language])
  return (
    <div className="shell" data-stale={stream.phase === 'stopped' || undefined}>
      <a className="skip" href="#main">
        {t('skip')}
      </a>
      <SideMenu session={session.data} />
      <div className="column">
        <header className="top">
          <button type="button" className="search" onClick={() => spotlight.open()}>
            <IconSearch size={15} aria-hidden />
            <span className="grow lbl">{t('palette.button')}</span>
            <kbd className="only-l" aria-hidden>
              Ctrl K
            </kbd>
          </button>
          <span className="grow" />
          <LiveState />
          <SimulatedMark />
          <LanguageButton />
          <SchemeButton />
          <ActionIcon className="only-l" variant="subtle" size="lg" aria-label={t('keys.title')} onClick={acts.help}>
            <IconKeyboard size={17} />
          </ActionIcon>
          <ActionIcon variant="subtle" size="lg" aria-label={t('logout')} onClick={() => void logOut()}>
            <IconLogout size={17} />
          </ActionIcon>
        </header>
        {hasMarks && <Outlet />}
      </div>
      <Dock />
      <Palette open={acts.open} />
      <KeyHelp opened={isHelpOpen} onClose={() => setHelpOpen(false)} />
    </div>
  )
}

async function logOut(): Promise<void> {
  await request('/logout', { method: 'POST' })
  location.assign('/login')
}

const isOpen = (page: string, path: string): boolean =>
  page === '/' ? path === '/' : path === page || path.startsWith(`${page}/`)

function SideMenu(props: { session: Session | undefined }) {
  const { t } = useTranslation()
  const path = useRouterState({ select: (state) => state.location.pathname })
  return (
    <nav className="side" aria-label={t('shell:menu')}>
      <div className="brand">
        <Logo />
        gpupool
      </div>
      {SECTIONS.map((section) => {
        const pages = listMenu(section, props.session?.role)
        if (pages.length === 0) return null
        return (
          <div key={section}>
            <div className="cap">{t(`shell:section.${section}`)}</div>
            {pages.map((page) => {
              const active = isOpen(page.path, path)
              const Glyph = page.menu?.icon
              return (
                <Link
                  key={page.path}
                  to={page.path}
                  className={active ? 'nav active' : 'nav'}
                  aria-current={active ? 'page' : undefined}
                >
                  {Glyph && <Glyph size={17} stroke={1.7} aria-hidden />}
                  {t(`${page.namespace}:menu`)}
                </Link>
              )
            })}
          </div>
        )
      })}
      {props.session && (
        <div className="account small sub">
          <b className="strong cut">{props.session.user}</b>
          <span className="row tight">
            <Tenant name={props.session.tenant} />
            <span>· {t(`shell:role.${props.session.role}`, { defaultValue: props.session.role })}</span>
          </span>
        </div>
      )}
    </nav>
  )
}

function Dock() {
  const { t } = useTranslation()
  const path = useRouterState({ select: (state) => state.location.pathname })
  const pages = SECTIONS.flatMap((section) => listMenu(section, undefined)).filter((page) => page.menu?.dock)
  return (
    <nav className="dock only-s" aria-label={t('shell:menuShort')}>
      {pages.map((page) => {
        const active = isOpen(page.path, path)
        const Glyph = page.menu?.icon
        return (
          <Link
            key={page.path}
            to={page.path}
            className={active ? 'active' : ''}
            aria-current={active ? 'page' : undefined}
          >
            {Glyph && <Glyph size={20} stroke={1.7} aria-hidden />}
            {t(`${page.namespace}:menu`)}
          </Link>
        )
      })}
    </nav>
  )
}

function Logo() {
  return (
    <svg width="22" height="22" viewBox="0 0 16 16" aria-hidden="true">
      <rect width="16" height="16" rx="4" fill="var(--ink)" />
      <rect x="3" y="3" width="10" height="3" fill="var(--bg)" />
      <rect x="3" y="7" width="6" height="6" fill="var(--bg)" />
      <rect x="10" y="7" width="3" height="6" fill="var(--bg)" opacity=".5" />
    </svg>
  )
}

function LanguageButton() {
  const { i18n } = useTranslation()
  const other = i18n.language === 'zh' ? 'en' : 'zh'
  return (
    <Button
      variant="subtle"
      size="compact-sm"
      lang={other === 'zh' ? 'zh-CN' : 'en'}
      onClick={() => changeLanguage(other)}
    >
      {other === 'zh' ? '中文' : 'English'}
    </Button>
  )
}

function SchemeButton() {
  const { t } = useTranslation('shell')
  const { colorScheme, setColorScheme } = useMantineColorScheme()
  const shown = useComputedColorScheme('light')
  const Glyph = colorScheme === 'auto' ? IconSunMoon : shown === 'dark' ? IconMoon : IconSun
  return (
    <Menu position="bottom-end" withinPortal={false}>
      <Menu.Target>
        <ActionIcon variant="subtle" size="lg" aria-label={t('scheme.title')}>
          <Glyph size={17} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown aria-label={t('scheme.title')}>
        {(['light', 'dark', 'auto'] as const).map((scheme) => (
          <Menu.Item key={scheme} onClick={() => setColorScheme(scheme)}>
            {t(`scheme.${scheme}`)}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  )
}
