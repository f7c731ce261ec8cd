/*
 * What an extension sees that simplifies defaults by itself, as Citus does with those of every INSERT.
 *
 * simplified_default(table) returns the simplified default of the first column as text. With simplified_default_support
 * as its support function, that is done when the call is planned.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/rel.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(simplified_default);
PG_FUNCTION_INFO_V1(simplified_default_support);

static text *
simplify(Oid table)
{
	Relation	relation = table_open(table, AccessShareLock);
	Node	   *expression = eval_const_expressions(NULL, build_column_default(relation, 1));

	table_close(relation, AccessShareLock);
	return cstring_to_text(nodeToString(expression));
}

Datum
simplified_default(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(simplify(PG_GETARG_OID(0)));
}

Datum
simplified_default_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	Const	   *table;

	if (!IsA(request, SupportRequestSimplify))
		PG_RETURN_POINTER(NULL);
	table = linitial_node(Const, ((SupportRequestSimplify *) request)->fcall->args);
	PG_RETURN_POINTER(makeConst(TEXTOID, -1, DEFAULT_COLLATION_OID, -1,
								PointerGetDatum(simplify(DatumGetObjectId(table->constvalue))), false, false));
}
