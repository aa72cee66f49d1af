import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Empty, Page } from './Page'

/** The answer for an address that no page has. */
export function Missing() {
  const { t } = useTranslation('shell')
  return (
    <Page title={t('missing.title')}>
      <Empty
        action={
          <Link className="chip" to="/">
            {t('missing.action')}
          </Link>
        }
      >
        {t('missing.sentence')}
      </Empty>
    </Page>
  )
}
